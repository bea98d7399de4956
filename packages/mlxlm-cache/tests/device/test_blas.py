import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from mlxlm_cache.device import Blas, blas_status, preload_blas
from mlxlm_cache.device.backend import has_cpu_wheel

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not has_cpu_wheel(), reason="only for MLX's Linux CPU wheel"
)
needs_wheel = pytest.mark.skipif(
    find_spec("scipy_openblas32") is None, reason="scipy-openblas32 is not installed"
)
SAY = "from mlxlm_cache.device import *; b = preload_blas();"


def fresh(code: str, **environment: str) -> str:
    """Run `code` in a new process and return what it prints."""
    ours = {k: v for k, v in os.environ.items() if k not in ("MLXLM_BLAS", "OPENBLAS_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=ours | environment,
    )
    return done.stdout.strip()


@needs_wheel
def test_the_wheel_serves_cblas_to_what_is_loaded_later() -> None:
    code = f"""{SAY}
import ctypes
plain = ctypes.CDLL(None).cblas_dgemm
theirs = ctypes.CDLL(b.path).scipy_cblas_dgemm
address = lambda f: ctypes.cast(f, ctypes.c_void_p).value
print(address(plain) == address(theirs), b.library, b.threads > 0, b.notice, b == blas_status())
"""
    assert fresh(code) == "True OpenBLAS True False True"


@needs_wheel
@pytest.mark.parametrize("switch", ["", "off"])
def test_products_and_decompositions_are_right(switch: str) -> None:
    code = f"""{SAY}
import mlx.core as mx, numpy as np
a = mx.random.normal((70, 90)); b = mx.random.normal((90, 50)); s = a @ a.T
exact = np.array(a, dtype=np.float64) @ np.array(b, dtype=np.float64)
print(np.abs(np.array(a @ b) - exact).max() < 1e-4)
with mx.stream(mx.cpu):
    q, r = mx.linalg.qr(a)
    values, vectors = mx.linalg.eigh(s)
    inverse = mx.linalg.inv(s + mx.eye(70))
    print(mx.allclose(q @ r, a, atol=1e-4).item())
    print(mx.allclose(vectors * values @ vectors.T, s, atol=1e-2).item())
    print(mx.allclose(inverse @ (s + mx.eye(70)), mx.eye(70), atol=1e-2).item())
"""
    assert fresh(code, MLXLM_BLAS=switch).split() == ["True"] * 4


def test_off_is_off() -> None:
    code = f"{SAY} print(b.library, b.notice, b.reason)"
    assert fresh(code, MLXLM_BLAS="off") == "None False MLXLM_BLAS=off"


def test_after_mlx_it_says_it_came_too_late() -> None:
    code = f"import mlx.core; {SAY} print(b.library, b.notice, b.reason)"
    said = fresh(code)
    assert said.startswith("None True preload_blas() came after MLX was imported")


@needs_wheel
@pytest.mark.parametrize("path", ["/no/such/libfast.so", "libnosuch.so.9"])
def test_a_library_that_does_not_load_is_named_though_another_is_used(path: str) -> None:
    code = f"{SAY} print(b.library, b.notice, b.reason); print(b)"
    said = fresh(code, MLXLM_BLAS=path)
    assert said.startswith(f"OpenBLAS True MLXLM_BLAS={path} does not load: ")
    assert said.count(f"MLXLM_BLAS={path} does not load") == 2


@needs_wheel
def test_a_library_that_is_no_blas_is_named() -> None:
    code = f"{SAY} print(b.library, b.notice, b.reason)"
    said = fresh(code, MLXLM_BLAS="libm.so.6")
    assert said == ("OpenBLAS True MLXLM_BLAS=libm.so.6 does not load: libm.so.6: no cblas_sgemm")


def test_nothing_found_is_a_notice_that_says_what_to_install() -> None:
    code = """
from mlxlm_cache.device import blas
blas._candidates = lambda wanted: iter([("OpenBLAS", "libnosuch.so", "")])
b = blas.preload_blas()
print(b.library, b.notice, b.reason)
"""
    said = fresh(code)
    assert said.startswith("None True no fast BLAS found: install the `cpu` extra")


@needs_wheel
def test_threads_are_the_users_where_the_environment_says() -> None:
    code = f"{SAY} print(b.threads)"
    assert fresh(code, OPENBLAS_NUM_THREADS="1") == "1"


@needs_wheel
def test_threads_are_the_cores_that_may_be_used() -> None:
    code = f"import os; os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}}); {SAY}"
    assert fresh(f"{code} print(b.threads)") == "1"


def test_the_status_before_the_call_says_so() -> None:
    code = "from mlxlm_cache.device import *; s = blas_status(); print(s.library, s.reason)"
    assert fresh(code) == "None preload_blas() was not called"


def test_a_second_call_changes_nothing() -> None:
    assert preload_blas() is preload_blas()
    assert blas_status() is preload_blas()


def test_it_reads_as_a_sentence() -> None:
    assert str(Blas(None, reason="not Linux")) == "MLX's own BLAS (not Linux)"
    assert str(Blas("MKL", "libmkl_rt.so", 0)) == "MKL, unknown threads (libmkl_rt.so)"
    assert str(Blas("MKL", "a.so", 2, "b: gone")) == "MKL, 2 threads (a.so; b: gone)"
