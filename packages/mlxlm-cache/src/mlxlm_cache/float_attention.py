"""Attention over float keys and values, as the backend does it best."""

from functools import cache
from typing import Protocol

import mlx.core as mx

from mlxlm_cache.cpu_attention import vectorized_attention
from mlxlm_cache.cpu_exp import fast_exp_pays
from mlxlm_cache.masks import Mask

_FEW_SCORES = 1 << 13  # for fewer, starting the many operations takes longer than they do


class FloatAttention(Protocol):
    def __call__(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: Mask,
        sinks: mx.array | None,
        *,
        scale: float,
    ) -> mx.array: ...


@cache
def float_attention() -> FloatAttention:
    """Return what computes `scaled_dot_product_attention` on MLX's default device."""
    return _vectorized if fast_exp_pays() else _fused


def _vectorized(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
) -> mx.array:
    batch, heads, length, _ = queries.shape
    attend = (
        vectorized_attention if batch * heads * length * keys.shape[2] >= _FEW_SCORES else _fused
    )
    return attend(queries, keys, values, mask, sinks, scale=scale)


def _fused(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
) -> mx.array:
    if isinstance(mask, mx.array) and mask.dtype != mx.bool_:
        mask = mask.astype(queries.dtype)
    if sinks is not None:
        sinks = sinks.astype(queries.dtype)
    return mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=scale, mask=mask, sinks=sinks
    )
