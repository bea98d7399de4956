import subprocess
import sys

import mlxlm_cache
import pytest
from mlxlm_cache.lazy import attach


def test_importing_the_package_imports_no_mlx() -> None:
    code = "import sys, mlxlm_cache, mlxlm_cache.device; sys.exit('mlx.core' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    assert sorted(mlxlm_cache.__all__) == dir(mlxlm_cache)
    for name in mlxlm_cache.__all__:
        assert getattr(mlxlm_cache, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'mlxlm_cache' has no attribute 'KVCash'"):
        _ = mlxlm_cache.KVCash


def test_without_a_backend_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['mlx.core'] = None\n"
        "import mlxlm_cache\n"
        "try: mlxlm_cache.KVCache\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'mlxlm-cache[cpu]'" in done.stdout


def test_another_import_error_stays_as_it_is(tmp_path: object) -> None:
    get, _ = attach("mlxlm_cache", {"no_such_module": ["thing"]})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        get("thing")
