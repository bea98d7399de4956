"""Attention over packed keys and values, of which one layer's is unpacked at a time.

For one or a few queries the packed values are multiplied as they are. For more that takes
longer than unpacking them first, on every backend, and MLX has fast attention kernels for
unpacked ones.
"""

from functools import cache, partial

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.device import backend
from mlxlm_cache.float_attention import float_attention
from mlxlm_cache.masks import Mask, create_causal_mask
from mlxlm_cache.query_blocks import attend_in_blocks

MAX_SCORES = 1 << 26
"""Pairs of query and key at a time: 128 MB of float16 scores where a kernel stores them."""


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

    Memory beyond the result: the keys and values unpacked, and at most MAX_SCORES scores.
    """
    _, heads, length, _ = queries.shape
    if heads // keys[0].shape[1] * length <= _packed_rows():
        attend = partial(_attend_packed, scale=scale, group_size=group_size, bits=bits)
        return attend_in_blocks(attend, queries, keys, values, mask, sinks, max_scores=MAX_SCORES)
    return attend_in_blocks(
        partial(float_attention(), scale=scale),
        queries,
        mx.dequantize(*keys, group_size=group_size, bits=bits, dtype=queries.dtype),
        mx.dequantize(*values, group_size=group_size, bits=bits, dtype=queries.dtype),
        mask,
        sinks,
        max_scores=MAX_SCORES,
    )


@cache
def _packed_rows() -> int:
    """Return up to how many query rows per key head the packed product is the faster way."""
    # CPU: 4 rows take 0.7 of the time, 8 take 3 times as long. CUDA has no such product for
    # keys of this shape. Metal: not measured; few enough for its matrix-vector product.
    return {"cpu": 4, "cuda": 0, "metal": 16}[backend()]


def _attend_packed(
    queries: mx.array,
    keys: Packed,
    values: Packed,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
    group_size: int,
    bits: int,
) -> mx.array:
    """Attend with packed products.

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
    column = mx.broadcast_to(sinks.astype(scores.dtype)[:, None, None], (batch, heads, length, 1))
    weights = mx.softmax(mx.concatenate([scores, column], axis=-1), axis=-1, precise=True)
    return weights[..., :-1]
