import json
import subprocess
import sys

_ALL = "import mlxlm_generate; [getattr(mlxlm_generate, name) for name in dir(mlxlm_generate)]; "


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_public_name_loads_without_heavy_packages() -> None:
    loaded = run(_ALL + "import sys, json; print(json.dumps(list(sys.modules)))")
    packages = {name.partition(".")[0] for name in json.loads(loaded)}
    assert "mlx" in packages
    assert not packages & {"numpy", "transformers", "tokenizers", "huggingface_hub"}
    assert not packages & {"mlxlm_models", "mlxlm_cli"}


def test_importing_does_not_load_mlx() -> None:
    assert run("import mlxlm_generate, sys; print('mlx.core' in sys.modules)") == "False\n"


def test_import_takes_at_most_100_ms_more_than_mlx() -> None:
    timed = "import time, mlx.core; t = time.process_time(); {}; print(time.process_time() - t)"
    assert min(float(run(timed.format("import mlxlm_generate"))) for _ in range(3)) < 0.1


def test_loading_all_that_generation_needs_is_quick() -> None:
    timed = (
        "import time, mlx.core; t = time.process_time(); "
        "from mlxlm_generate import generate, stream_generate, generate_step; "
        "print(time.process_time() - t)"
    )
    assert min(float(run(timed)) for _ in range(3)) < 0.25


def test_import_leaves_no_stream_and_no_logging_set_up() -> None:
    code = _ALL + "import logging; print(logging.getLogger().handlers, logging.root.level)"
    assert run(code) == "[] 30\n"
