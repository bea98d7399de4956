"""Soft-capping: cap * tanh(x / cap), as in Gemma 2, for logits and attention scores."""

from functools import cache
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_models.layers.activations import fused

MAX_SCORES = 1 << 26
"""Scores held at a time; longer prompts are attended to in blocks of queries."""

_soft_cap = cache(lambda: fused(lambda x, cap: mx.tanh(x / cap) * cap))


def soft_cap(x: mx.array, cap: float) -> mx.array:
    """Squash x smoothly into (-cap, cap), in its own dtype."""
    return _soft_cap()(x, mx.array(cap, x.dtype))


def soft_capped_attention(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Cache | None,
    scale: float,
    mask: mx.array | None,
    cap: float,
) -> mx.array:
    """Attend with soft-capped scores; the fused kernels cannot.

    queries (B, heads, L, D); keys and values (B, kv_heads, S, D), or the packed triples of
    a quantized cache; mask None or an array, boolean or additive, that broadcasts to
    (B, 1, L, S).
    """
    batch, heads, length, dims = queries.shape
    packed = isinstance(keys, tuple)
    first = keys[0] if packed else keys
    kv_heads, total = first.shape[1], first.shape[2]
    group = heads // kv_heads
    # The kv heads broadcast over the queries of their group: (B, kv_heads, group, L, D).
    queries = (queries * scale).reshape(batch, kv_heads, group, length, dims)
    if packed:
        keys = tuple(part[:, :, None] for part in keys)
        values = tuple(part[:, :, None] for part in values)
    else:
        keys, values = keys[:, :, None].swapaxes(-1, -2), values[:, :, None]
    if mask is not None:
        mask = mask[:, :, None] if mask.ndim == 4 else mask

    rows = max(1, MAX_SCORES // (batch * heads * total))
    blocks = []
    for start in range(0, length, rows):
        stop = min(start + rows, length)
        scores = soft_cap(_product(queries[..., start:stop, :], keys, cache, transpose=True), cap)
        if mask is not None:
            part = mask[..., start:stop, :] if mask.shape[-2] > 1 else mask
            scores = mx.where(part, scores, -mx.inf) if part.dtype == mx.bool_ else scores + part
        weights = mx.softmax(scores, axis=-1, precise=True)
        blocks.append(_product(weights, values, cache, transpose=False))
    out = blocks[0] if len(blocks) == 1 else mx.concatenate(blocks, axis=-2)
    return out.reshape(batch, heads, length, -1)


def _product(x: mx.array, other: Any, cache: Any, transpose: bool) -> mx.array:
    if not isinstance(other, tuple):
        return mx.matmul(x, other)
    weights, scales, biases = other
    return mx.quantized_matmul(
        x,
        weights,
        scales,
        biases,
        transpose=transpose,
        group_size=cache.group_size,
        bits=cache.bits,
    )
