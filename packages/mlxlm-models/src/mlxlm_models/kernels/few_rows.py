"""Products of few rows with 16-bit or 4-bit weights, which are read once for all rows."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from math import prod
from typing import Any

import mlx.core as mx

DENSE_ROWS = 8
"""From 2 rows up to this many `dense` is faster than what MLX has (H200, steps of an 8B model:
2 rows 5.7 ms, not 8.6; 8 rows 5.6, not 7.1; 1 row 4.9, not 4.8; 16 rows 6.5, not 6.1)."""

PACKED_ROWS = 32
"""Of x. A thread block reads all of x, so the cost grows with its rows."""

SHARED_BYTES = 227 << 10
"""What a thread block can have on Hopper."""

HALF = (mx.bfloat16, mx.float16)

Product = Callable[..., mx.array]


def fits_dense(x: mx.array, weight: mx.array) -> bool:
    """Tell whether `dense` computes x (…, columns) times weight (outputs, columns)."""
    columns = x.shape[-1]
    return (
        columns < x.size <= DENSE_ROWS * columns
        and columns % 128 == 0
        and weight.shape[0] % 32 == 0
        and weight.dtype == x.dtype
        and x.dtype in HALF
    )


def fits_packed4(x: mx.array, weight: mx.array, scales: mx.array) -> bool:
    """Tell whether `packed4` computes x (…, columns) times weight (outputs, columns / 8)."""
    columns = x.shape[-1]
    return (
        x.size <= PACKED_ROWS * columns
        and columns % 256 == 0
        and weight.shape[0] % 32 == 0
        and scales.dtype == x.dtype
        and x.dtype in HALF
    )


def dense(x: mx.array, weight: mx.array) -> mx.array:
    """Return x (…, columns) times weight (outputs, columns), transposed."""
    return _dense(x.shape, weight.shape[0], x.dtype)(x, weight)


def packed4(
    x: mx.array, weight: mx.array, scales: mx.array, biases: mx.array, group_size: int
) -> mx.array:
    """Return x (…, columns) times 4-bit weights (outputs, columns / 8), transposed."""
    product = _packed4(x.shape, weight.shape[0], x.dtype, group_size)
    return product(x, weight, scales, biases)


def dequantize4(weight: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """Return the 16-bit weights (outputs, columns) of packed ones (outputs, columns / 8)."""
    return _dequantize4(*weight.shape, scales.dtype, group_size)(weight, scales, biases)


@cache
def _dense(shape: tuple[int, ...], outputs: int, dtype: mx.Dtype) -> Product:
    step = 128
    line = 2 * step + 64
    return _few_rows("dense", shape, outputs, dtype, (1, 8, 2), step, line, line)


@cache
def _packed4(shape: tuple[int, ...], outputs: int, dtype: mx.Dtype, group_size: int) -> Product:
    step = 256
    rows = prod(shape[:-1])
    small = rows == 1 and outputs < 1 << 14
    layout = (1, 8, 3) if small else (2, 8 if rows <= 16 else 4, 2)
    line = step // 2 + 32 + 4 * (step // group_size)
    return _few_rows(
        "packed4", shape, outputs, dtype, layout, step, line, 2 * step + 16, GROUP=group_size
    )


def _few_rows(
    name: str,
    shape: tuple[int, ...],
    outputs: int,
    dtype: mx.Dtype,
    layout: tuple[int, int, int],
    step: int,
    line: int,
    x_line: int,
    **constants: int,
) -> Product:
    """`line` and `x_line` are the bytes of a row of weights and of x in shared memory."""
    tiles, warps, stages = layout
    rows = prod(shape[:-1])
    eights = -(-rows // 8)
    x_rows = 1 if rows == 1 else 8 * eights
    stage = 16 * tiles * line + x_rows * x_line
    while warps * stages * stage > SHARED_BYTES:
        warps //= 2
    buffers = warps * stages * stage
    sums = warps * 8 * eights * (16 * tiles + 4) * 4
    kernel = mx.fast.cuda_kernel(
        name=f"{name}_{_digest('few_rows.cuh', f'{name}.cu')}",
        input_names=["x", "w", "s", "b"] if constants else ["x", "w"],
        output_names=["y"],
        source=_text(f"{name}.cu"),
        header=_text("few_rows.cuh"),
        shared_memory=max(buffers, sums),
    )
    constants |= {"MT": eights, "XROWS": x_rows, "TILES": tiles, "WARPS": warps}
    constants |= {"STAGES": stages, "STEP": step}
    return _compiled(
        kernel,
        template=[("T", dtype), *constants.items()],
        grid=(outputs // (16 * tiles) * 32 * warps, 1, 1),
        threadgroup=(32 * warps, 1, 1),
        output_shapes=[(*shape[:-1], outputs)],
        output_dtypes=[dtype],
    )


@cache
def _dequantize4(outputs: int, words: int, dtype: mx.Dtype, group_size: int) -> Product:
    threads = 256
    kernel = mx.fast.cuda_kernel(
        name=f"dequantize4_{_digest('dequantize4.cu')}",
        input_names=["w", "s", "b"],
        output_names=["y"],
        source=_text("dequantize4.cu"),
    )
    return _compiled(
        kernel,
        template=[("T", dtype), ("GROUP", group_size)],
        grid=(-(-outputs * words // threads) * threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=[(outputs, 8 * words)],
        output_dtypes=[dtype],
    )


def _compiled(kernel: Any, **how: Any) -> Product:
    """A call of a kernel puts its source together anew each time; a compiled graph doesn't."""
    compiled: Any = mx.compile(lambda *inputs: kernel(inputs=list(inputs), **how)[0])
    return compiled  # type: ignore[no-any-return]


def _digest(*names: str) -> str:
    """MLX keeps compiled kernels on disk by name, so another source needs another name."""
    return sha256("".join(map(_text, names)).encode()).hexdigest()[:8]


@cache
def _text(file: str) -> str:
    return files(__package__).joinpath(file).read_text()
