"""Soft-capping: cap * tanh(x / cap), as in Gemma 2, for logits and attention scores."""

from functools import cache, partial
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, Mask, scaled_dot_product_attention

from mlxlm_models.layers.activations import Gate, fused, with_fast_exp


@cache
def _soft_cap() -> Gate:
    tanh = with_fast_exp(mx.tanh)
    return fused(lambda x, cap: tanh(x / cap) * cap)


def soft_cap(x: mx.array, cap: float) -> mx.array:
    """Squash x smoothly into (-cap, cap), in its own dtype."""
    return _soft_cap()(x, mx.array(cap, x.dtype))


def soft_capped_attention(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Cache | None,
    scale: float,
    mask: Mask,
    cap: float,
) -> mx.array:
    """Do what `scaled_dot_product_attention` does, with soft-capped scores."""
    score = partial(soft_cap, cap=cap)
    return scaled_dot_product_attention(queries, keys, values, cache, scale, mask, score=score)
