import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from mlxlm_cache.device import one_row
from mlxlm_cache.device.backend import has_cpu_wheel
from mlxlm_cache.device.one_row import machine_code, with_one_row

x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the code is for x86-64"
)
INT, FLOAT, POINTER = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
Gemm = ctypes.CFUNCTYPE(
    None,
    *(INT,) * 6,
    *(FLOAT, POINTER, INT, POINTER, INT, FLOAT, POINTER, INT),
)
Gemv = ctypes.CFUNCTYPE(
    None,
    *(INT,) * 4,
    *(FLOAT, POINTER, INT, POINTER, INT, FLOAT, POINTER, INT),
)
A, B, C = 0x7F0000000A00, 0x7F0000000B00, 0x7F0000000C00


@pytest.fixture
def call() -> Callable[..., tuple[Any, ...]]:
    """Return a function that calls the code, and returns which function it came to, and how."""
    seen: list[tuple[Any, ...]] = []
    gemm = Gemm(lambda *told: seen.append(("gemm", *told)))
    gemv = Gemv(lambda *told: seen.append(("gemv", *told)))
    addresses = [ctypes.cast(f, POINTER).value or 0 for f in (gemm, gemv)]
    code = Gemm(one_row._executable(machine_code(*addresses)))

    def run(*told: Any, kept: object = (gemm, gemv)) -> tuple[Any, ...]:
        code(*told)
        return seen.pop()

    return run


@x86
def test_one_row_times_a_transposed_matrix(call: Callable[..., tuple[Any, ...]]) -> None:
    """a (1, 5) times the transpose of b (7, 5), whose rows are 9 apart."""
    told = (101, 111, 112, 1, 7, 5, 0.5, A, 5, B, 9, 0.25, C, 7)
    assert call(*told) == ("gemv", 101, 111, 7, 5, 0.5, B, 9, A, 1, 0.25, C, 1)


@x86
def test_one_row_times_a_matrix(call: Callable[..., tuple[Any, ...]]) -> None:
    """a (1, 5) times b (5, 7)."""
    told = (101, 111, 111, 1, 7, 5, 2.0, A, 5, B, 7, 0.0, C, 7)
    assert call(*told) == ("gemv", 101, 112, 5, 7, 2.0, B, 7, A, 1, 0.0, C, 1)


@x86
@pytest.mark.parametrize(
    "told",
    [
        (101, 111, 112, 2, 7, 5, 0.5, A, 5, B, 9, 0.25, C, 7),  # two rows
        (102, 111, 112, 1, 7, 5, 0.5, A, 5, B, 9, 0.25, C, 7),  # column-major
        (101, 112, 112, 1, 7, 5, 0.5, A, 5, B, 9, 0.25, C, 7),  # the row lies as a column
        (101, 111, 113, 1, 7, 5, 0.5, A, 5, B, 9, 0.25, C, 7),  # conjugated
    ],
)
def test_all_else_goes_on_unchanged(
    told: tuple[Any, ...], call: Callable[..., tuple[Any, ...]]
) -> None:
    assert call(*told) == ("gemm", *told)


def test_where_it_can_t_be_all_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"cblas_sgemm": 1, "cblas_sgemv": 2}
    assert with_one_row({"cblas_sgemm": 1}) == {"cblas_sgemm": 1}

    def refuse(code: bytes) -> int:
        raise OSError("no code may be made here")

    monkeypatch.setattr(one_row, "_executable", refuse)
    assert with_one_row(both) == both
    monkeypatch.setattr(one_row, "_executable", lambda code: 3)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert with_one_row(both) == both
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert with_one_row(both) == {"cblas_sgemm": 3, "cblas_sgemv": 2}


PRODUCTS = """
from mlxlm_cache.device import preload_blas
assert preload_blas().library
import mlx.core as mx, numpy as np
mx.random.seed(0)
for rows in (1, 2):
    for k, n in ((1, 1), (1, 9), (9, 1), (5, 7), (64, 300), (576, 1536), (1536, 576), (3000, 17)):
        x = mx.random.normal((rows, 2 * k))[:, :k]
        w = mx.random.normal((n, k + 3))[:, :k]
        for y, matrix in (
            (x @ w.T, w.T), (x @ mx.contiguous(w.T), w.T), (x[:, ::-1] @ w.T, w[:, ::-1].T),
            (mx.addmm(mx.ones((rows, n)), x, w.T, 0.5, 2) * 2 - 4, w.T),
        ):
            exact = np.array(x, np.float64) @ np.array(matrix, np.float64)
            assert np.abs(np.array(y) - exact).max() < 1e-4 * k ** 0.5, (rows, k, n)
heads = mx.random.normal((3, 4, 1, 16)); keys = mx.random.normal((3, 4, 50, 16))
exact = np.array(heads, np.float64) @ np.array(keys, np.float64).swapaxes(-1, -2)
assert np.abs(np.array(heads @ keys.swapaxes(-1, -2)) - exact).max() < 1e-4
print("right")
"""


@pytest.mark.skipif(
    find_spec("scipy_openblas32") is None or not has_cpu_wheel(),
    reason="only for MLX's Linux CPU wheel, with scipy-openblas32",
)
def test_products_of_one_row_are_right(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRODUCTS], capture_output=True, text=True, check=False
    )
    assert done.stdout == "right\n", done.stderr
