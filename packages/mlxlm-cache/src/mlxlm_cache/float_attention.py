"""Attention over float keys and values, as the backend does it best."""

from functools import cache, partial
from typing import Protocol

import mlx.core as mx

from mlxlm_cache.cpu_attention import vectorized_attention
from mlxlm_cache.cpu_exp import fast_exp_pays
from mlxlm_cache.masks import Mask
from mlxlm_cache.query_blocks import attend_in_blocks
from mlxlm_cache.unfused_attention import Score, matmul, unfused_attention

MAX_SCORES = 1 << 26
"""Pairs of query and key at a time: 128 MB of float16 scores where they are stored."""

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
        score: Score | None,
    ) -> mx.array: ...


@cache
def float_attention() -> FloatAttention:
    """Return what computes `scaled_dot_product_attention` on MLX's default device."""
    return _on_cpu if fast_exp_pays() else _fused


def _on_cpu(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
    score: Score | None,
) -> mx.array:
    batch, heads, length, _ = queries.shape
    few = batch * heads * length * keys.shape[2] < _FEW_SCORES
    attend = _fused if few else vectorized_attention
    return attend(queries, keys, values, mask, sinks, scale=scale, score=score)


def _fused(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
    score: Score | None,
) -> mx.array:
    if score is not None:
        attend = partial(unfused_attention, scale=scale, score=score, product=matmul)
        return attend_in_blocks(attend, queries, keys, values, mask, sinks, max_scores=MAX_SCORES)
    if isinstance(mask, mx.array) and mask.dtype != mx.bool_:
        mask = mask.astype(queries.dtype)
    if sinks is not None:
        sinks = sinks.astype(queries.dtype)
    return mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=scale, mask=mask, sinks=sinks
    )
