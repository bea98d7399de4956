"""Attention over what a cache returned, packed or not."""

from typing import Any

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.float_attention import float_attention
from mlxlm_cache.masks import Mask
from mlxlm_cache.quantized_attention import quantized_scaled_dot_product_attention
from mlxlm_cache.unfused_attention import Score


def scaled_dot_product_attention(
    queries: mx.array,
    keys: mx.array | Packed,
    values: mx.array | Packed,
    cache: Any,
    scale: float,
    mask: Mask,
    sinks: mx.array | None = None,
    *,
    score: Score | None = None,
) -> mx.array:
    """Return softmax(scale * Q K^T) V, of shape (B, n_heads, L, D of the values).

    `queries` are (B, n_heads, L, D); `keys` and `values` (B, n_kv, S, D), n_kv dividing
    n_heads, or the triples of a quantized cache, which `cache` then is. `mask` is None,
    "causal" (the last query aligned with the last key), boolean (True: attend) or
    additive. `sinks`, (n_heads,), are logits that take part in each row's softmax and
    have no value. `score` changes the scaled scores, number by number, before the mask.
    """
    if isinstance(keys, mx.array) and isinstance(values, mx.array):
        return float_attention()(queries, keys, values, mask, sinks, scale=scale, score=score)
    if isinstance(keys, mx.array) or isinstance(values, mx.array):
        raise TypeError("keys and values must both be arrays or both be packed")
    if not (hasattr(cache, "group_size") and hasattr(cache, "bits")):
        raise TypeError(
            f"packed keys need the cache they came from, with its group_size and bits, "
            f"not {type(cache).__name__}"
        )
    return quantized_scaled_dot_product_attention(
        queries,
        keys,
        values,
        scale=scale,
        mask=mask,
        group_size=cache.group_size,
        bits=cache.bits,
        sinks=sinks,
        score=score,
    )
