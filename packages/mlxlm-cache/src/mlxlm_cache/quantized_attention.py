"""Attention over packed keys and values, which are never unpacked as a whole."""

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.masks import Mask, create_causal_mask


def quantized_scaled_dot_product_attention(
    queries: mx.array,
    keys: Packed,
    values: Packed,
    *,
    scale: float,
    mask: Mask,
    group_size: int = 64,
    bits: int = 8,
    sinks: mx.array | None = None,
) -> mx.array:
    """Do what `scaled_dot_product_attention` does, with the softmax in float32.

    The query heads that share a key head are rows of one product, so that each packed
    key is read once.
    """
    batch, heads, length, _ = queries.shape
    n_kv, size = keys[0].shape[1:3]
    rows = (batch, n_kv, heads // n_kv * length)
    scores = mx.quantized_matmul(
        (queries * scale).reshape(*rows, -1),
        *keys,
        transpose=True,
        group_size=group_size,
        bits=bits,
    ).reshape(batch, heads, length, size)
    weights = _softmax(_masked(scores, mask), sinks)
    out = mx.quantized_matmul(
        weights.reshape(*rows, size), *values, transpose=False, group_size=group_size, bits=bits
    )
    return out.reshape(batch, heads, length, -1)


def _masked(scores: mx.array, mask: Mask) -> mx.array:
    if mask is None:
        return scores
    if isinstance(mask, str):
        if mask != "causal":
            raise ValueError(f'mask must be an array, "causal" or None, not {mask!r}')
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
    batch, heads, length, _ = scores.shape
    column = mx.broadcast_to(sinks[None, :, None, None], (batch, heads, length, 1))
    weights = mx.softmax(mx.concatenate([scores, column], axis=-1), axis=-1, precise=True)
    return weights[..., :-1]
