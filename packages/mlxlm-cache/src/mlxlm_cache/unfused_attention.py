"""Attention from two products and a softmax, for what no fused kernel computes."""

from collections.abc import Callable

import mlx.core as mx

from mlxlm_cache.masks import Mask, create_causal_mask
from mlxlm_cache.query_blocks import Stored

# Changes scaled scores, number by number, before the mask: as soft-capping does.
Score = Callable[[mx.array], mx.array]


# (x, stored, *, transpose) to x @ stored, or x times stored's transpose.
Product = Callable[..., mx.array]


def matmul(x: mx.array, stored: mx.array, *, transpose: bool) -> mx.array:
    return x @ (stored.swapaxes(-1, -2) if transpose else stored)


def unfused_attention(
    queries: mx.array,
    keys: Stored,
    values: Stored,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
    score: Score | None,
    product: Product,
) -> mx.array:
    """Do what `scaled_dot_product_attention` does, with the softmax in float32.

    The query heads that share a key head are rows of one product, so that each key is
    read once.
    """
    batch, heads, length, dims = queries.shape
    n_kv, size = (keys if isinstance(keys, mx.array) else keys[0]).shape[1:3]
    rows = (batch, n_kv, heads // n_kv * length)
    scores = product((queries * scale).reshape(*rows, dims), keys, transpose=True)
    scores = scores.reshape(batch, heads, length, size)
    weights = _softmax(_masked(score(scores) if score else scores, mask), sinks)
    out = product(weights.reshape(*rows, size), values, transpose=False)
    return out.reshape(batch, heads, length, -1)


def _masked(scores: mx.array, mask: Mask) -> mx.array:
    if mask is None:
        return scores
    if isinstance(mask, str):
        length, size = scores.shape[-2:]
        mask = create_causal_mask(length, offset=size - length)
    if mask.dtype == mx.bool_:
        lowest = mx.array(mx.finfo(scores.dtype).min, dtype=scores.dtype)
        return mx.where(mask, scores, lowest)
    return scores + mask.astype(scores.dtype)


def _softmax(scores: mx.array, sinks: mx.array | None) -> mx.array:
    """Normalize over keys and, where there is one, the head's sink."""
    if sinks is None:
        return mx.softmax(scores, axis=-1, precise=True)
    column = sinks.astype(scores.dtype)[:, None, None]
    column = mx.broadcast_to(column, (*scores.shape[:3], 1))
    weights = mx.softmax(mx.concatenate([scores, column], axis=-1), axis=-1, precise=True)
    return weights[..., :-1]
