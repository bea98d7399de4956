"""Products of few rows with weights that are read once, from 16-bit or 4-bit numbers."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import mlx.core as mx

MAX_ROWS = 32
"""Of x. Each thread block reads all of x, so the cost grows with its rows."""

HALF = (mx.bfloat16, mx.float16)


def fits_dense(x: mx.array, weight: mx.array) -> bool:
    """Tell whether `dense` computes x (rows, columns) times weight (outputs, columns)."""
    return _fits(x, weight, 128) and weight.dtype == x.dtype


def fits_packed4(x: mx.array, weight: mx.array, scales: mx.array) -> bool:
    """Tell whether `packed4` computes x times weight (outputs, columns / 8)."""
    return _fits(x, weight, 256) and scales.dtype == x.dtype


def _fits(x: mx.array, weight: mx.array, step: int) -> bool:
    rows, columns = x.shape
    return (
        rows <= MAX_ROWS
        and x.dtype in HALF
        and columns % step == 0
        and weight.shape[0] % 32 == 0
    )


def dense(x: mx.array, weight: mx.array) -> mx.array:
    """Return x (rows, columns) times weight (outputs, columns), transposed."""
    tiles, warps, stages = dense_launch(x.shape[0], weight.shape[0])
    return _run("dense", [x, weight], tiles, warps, stages, 128, 2 * 128 + 64, 2 * 128 + 64, 0)


def packed4(
    x: mx.array, weight: mx.array, scales: mx.array, biases: mx.array, group_size: int
) -> mx.array:
    """Return x (rows, columns) times 4-bit weights (outputs, columns / 8), transposed."""
    tiles, warps, stages = packed_launch(x.shape[0], weight.shape[0])
    line = 256 // 2 + 32 + 4 * (256 // group_size)
    return _run(
        "packed4", [x, weight, scales, biases], tiles, warps, stages, 256, line, 2 * 256 + 16,
        group_size,
    )


def dense_launch(rows: int, outputs: int) -> tuple[int, int, int]:
    return DENSE.get((rows + 7) // 8, (1, 8, 2))


def packed_launch(rows: int, outputs: int) -> tuple[int, int, int]:
    return PACKED.get((rows + 7) // 8, (2, 8, 2))


DENSE: dict[int, tuple[int, int, int]] = {3: (1, 4, 2), 4: (1, 4, 2)}
PACKED: dict[int, tuple[int, int, int]] = {3: (2, 4, 2), 4: (2, 4, 2)}


def _run(
    name: str,
    inputs: list[mx.array],
    tiles: int,
    warps: int,
    stages: int,
    step: int,
    line: int,
    x_line: int,
    group_size: int,
) -> mx.array:
    x, weight = inputs[:2]
    rows, outputs = x.shape[0], weight.shape[0]
    tokens = -(-rows // 8)
    x_rows = 1 if rows == 1 else 8 * tokens
    shared = max(
        warps * stages * (16 * tiles * line + x_rows * x_line),
        warps * 8 * tokens * (16 * tiles + 4) * 4,
    )
    template: list[tuple[str, Any]] = [
        ("T", x.dtype),
        ("MT", tokens),
        ("XROWS", x_rows),
        ("TILES", tiles),
        ("WARPS", warps),
        ("STAGES", stages),
        ("STEP", step),
    ]
    if group_size:
        template.append(("GROUP", group_size))
    product: Any = _kernel(name, shared)(
        inputs=inputs,
        template=template,
        grid=(outputs // (16 * tiles) * 32 * warps, 1, 1),
        threadgroup=(32 * warps, 1, 1),
        output_shapes=[(rows, outputs)],
        output_dtypes=[x.dtype],
    )
    return product[0]  # type: ignore[no-any-return]


@cache
def _kernel(name: str, shared: int) -> Any:
    return mx.fast.cuda_kernel(
        name=f"{name}_{_digest(name)}",
        input_names=["x", "w", "s", "b"][: 2 if name == "dense" else 4],
        output_names=["y"],
        source=_text(f"{name}.cu"),
        header=_text("few_rows.cuh"),
        shared_memory=shared,
    )


def dequantize4(
    weight: mx.array, scales: mx.array, biases: mx.array, group_size: int
) -> mx.array:
    """Return the 16-bit weights (outputs, columns) of packed ones (outputs, columns / 8)."""
    outputs, words = weight.shape
    product: Any = _dequantize()(
        inputs=[weight, scales, biases],
        template=[("T", scales.dtype), ("GROUP", group_size)],
        grid=(-(-outputs * words // 256) * 256, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[(outputs, 8 * words)],
        output_dtypes=[scales.dtype],
    )
    return product[0]  # type: ignore[no-any-return]


@cache
def _dequantize() -> Any:
    return mx.fast.cuda_kernel(
        name=f"dequantize4_{_digest('dequantize4')}",
        input_names=["w", "s", "b"],
        output_names=["y"],
        source=_text("dequantize4.cu"),
    )


def _digest(name: str) -> str:
    """MLX keeps compiled kernels on disk by name, so another source needs another name."""
    return sha256((_text("few_rows.cuh") + _text(f"{name}.cu")).encode()).hexdigest()[:8]


def _text(file: str) -> str:
    return files(__package__).joinpath(file).read_text()
