"""Attention over packed keys and values, of which one layer's are unpacked at a time.

For one or a few queries the packed values are multiplied as they are. For more that takes
longer than unpacking them first, and MLX has fast attention kernels for unpacked ones.
"""

from functools import cache, partial

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.device import backend
from mlxlm_cache.float_attention import MAX_SCORES, float_attention
from mlxlm_cache.masks import Mask
from mlxlm_cache.query_blocks import attend_in_blocks
from mlxlm_cache.unfused_attention import Score, unfused_attention


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
    score: Score | None = None,
) -> mx.array:
    """Do what `scaled_dot_product_attention` does, with the softmax in float32.

    Memory beyond the result: these keys and values unpacked, and MAX_SCORES scores.
    """
    _, heads, length, _ = queries.shape
    if heads // keys[0].shape[1] * length <= _packed_rows():
        product = partial(_packed_product, group_size=group_size, bits=bits)
        attend = partial(unfused_attention, scale=scale, score=score, product=product)
        return attend_in_blocks(attend, queries, keys, values, mask, sinks, max_scores=MAX_SCORES)
    return attend_in_blocks(
        partial(float_attention(), scale=scale, score=score),
        queries,
        _unpacked(keys, group_size, bits).astype(queries.dtype),
        _unpacked(values, group_size, bits).astype(queries.dtype),
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


def _packed_product(
    x: mx.array, packed: Packed, *, transpose: bool, group_size: int, bits: int
) -> mx.array:
    return mx.quantized_matmul(x, *packed, transpose=transpose, group_size=group_size, bits=bits)


def _unpacked(packed: Packed, group_size: int, bits: int) -> mx.array:
    return mx.dequantize(*packed, group_size=group_size, bits=bits)
