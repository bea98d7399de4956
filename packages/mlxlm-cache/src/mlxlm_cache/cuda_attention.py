"""Attention on CUDA with few different shapes.

MLX computes attention of several queries with cuDNN, which makes a plan for each shape: 45
ms on an H200, and after 512 plans MLX 0.32 stops with an error. So queries and keys are
padded until their numbers and the distance between them are multiples of `UNIT`. A causal
mask hides the padding.
"""

import mlx.core as mx

from mlxlm_cache.masks import Mask

UNIT = 256
"""Tokens."""


def causal_attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
) -> mx.array:
    """Do what `mx.fast.scaled_dot_product_attention` does for the mask "causal"."""
    length, size = queries.shape[2], keys.shape[2]
    before = (size - length) % UNIT  # so that the first key is further from the first query
    after = -(before + length) % UNIT
    if before or after:
        queries = mx.pad(queries, [(0, 0), (0, 0), (before, after), (0, 0)])
    if after:
        keys, values = (mx.pad(a, [(0, 0), (0, 0), (0, after), (0, 0)]) for a in (keys, values))
    out = mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=scale, mask=mask, sinks=sinks
    )
    return out[:, :, before : before + length] if before or after else out
