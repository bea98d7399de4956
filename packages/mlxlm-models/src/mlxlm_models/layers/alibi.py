"""Attention with linear biases (ALiBi; Press et al., 2022)."""

import math
from typing import Any

import mlx.core as mx
from mlxlm_cache import Mask, create_causal_mask


def slopes(heads: int, steepest: float = 8.0) -> tuple[float, ...]:
    """Return each head's slope: a geometric series down to 2 ** -steepest.

    Where `heads` isn't a power of two, the series of the next smaller one comes first, then
    every second of the next larger one.
    """
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-steepest * (i + 1) / power) for i in range(power)]
    finer = [2 ** (-steepest * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]
    return tuple(first + finer)


def biased(mask: Mask, heads: mx.array, keys: Any, queries: mx.array) -> mx.array:
    """Return an additive mask (…, heads, L, S) that also lowers far keys.

    `heads` are slopes, (heads, 1, 1); `keys` may be packed. They stand in the
    order of their positions, so how far one is from the last is enough: what is the same for
    a whole row, softmax ignores.
    """
    total = (keys[0] if isinstance(keys, tuple) else keys).shape[2]
    bias, dtype = heads * mx.arange(1 - total, 1), queries.dtype
    if isinstance(mask, str):
        mask = create_causal_mask(queries.shape[2], total - queries.shape[2])
    if mask is None:
        return bias.astype(dtype)[None]
    if mask.dtype == mx.bool_:
        return mx.where(mask, bias, -mx.inf).astype(dtype)
    return (mask + bias).astype(dtype)
