import subprocess
import sys
from pathlib import Path

import mlxlm_sample
import pytest


def run(code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    head = f"import sys; sys.path[:0] = {[str(path) for path in paths]!r}\n"
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=60
    )


def test_importing_the_package_does_not_import_mlx() -> None:
    done = run(
        "import sys, mlxlm_sample as s\n"
        "s.SAMPLING, s.xtc_special_tokens, s.SamplingOptions(temp=1), s.ProcessorOptions()\n"
        "assert not any(name.split('.')[0] in ('mlx', 'numpy') for name in sys.modules)\n"
        "s.make_sampler\n"
        "assert 'mlx.core' in sys.modules and 'numpy' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "core",
    [
        pytest.param(None, id="no mlx"),
        pytest.param("", id="no backend"),
        pytest.param("raise ImportError('libmlx.so: cannot open shared object file')", id="no lib"),
    ],
)
def test_without_a_backend_the_first_use_names_the_extra(tmp_path: Path, core: str | None) -> None:
    package = tmp_path / "mlx"
    package.mkdir()
    (package / "__init__.py").write_text(
        ""
        if core is not None
        else "raise ModuleNotFoundError(\"No module named 'mlx'\", name='mlx')"
    )
    if core:
        (package / "core.py").write_text(core)
    done = run("import mlxlm_sample\nmlxlm_sample.SAMPLING\nmlxlm_sample.make_sampler", tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: MLX has no backend")
    assert "mlxlm-sample[cpu]" in last


def test_every_public_name_loads_and_is_listed() -> None:
    for name in dir(mlxlm_sample):
        assert getattr(mlxlm_sample, name) is not None
    assert {"make_sampler", "make_logits_processors", "KeyStream"} <= set(dir(mlxlm_sample))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'make_samplers'"):
        mlxlm_sample.make_samplers  # noqa: B018


def test_the_lazy_names_are_those_that_type_checkers_see() -> None:
    source = Path(mlxlm_sample.__file__).read_text()
    seen = [line.split()[-1] for line in source.splitlines() if line.startswith("    from mlxlm")]
    assert sorted(seen) == dir(mlxlm_sample)
