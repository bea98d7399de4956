import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import ConcatenateKVCache, KVCache, QuantizedKVCache, RotatingKVCache


def test_buffers_grow_in_blocks_of_256() -> None:
    cache = KVCache()
    sizes = []
    for length in (1, 254, 1, 1, 255, 1):
        cache.update_and_fetch(mx.zeros((1, 1, length, 4)), mx.zeros((1, 1, length, 4)))
        assert cache.keys is not None
        sizes.append(cache.keys.shape[2])
    assert sizes == [256, 256, 256, 512, 512, 768]


def test_keys_and_values_may_differ_in_size_and_keep_their_dtype() -> None:
    cache = KVCache()
    keys, values = cache.update_and_fetch(
        mx.zeros((2, 1, 3, 4), dtype=mx.bfloat16), mx.zeros((2, 1, 3, 6), dtype=mx.float16)
    )
    assert (keys.shape, keys.dtype) == ((2, 1, 3, 4), mx.bfloat16)
    assert (values.shape, values.dtype) == ((2, 1, 3, 6), mx.float16)


@pytest.mark.parametrize("kind", [KVCache, ConcatenateKVCache])
@pytest.mark.parametrize("bits", [4, 8])
def test_to_quantized_holds_the_same_tokens(
    kind: type[KVCache] | type[ConcatenateKVCache], bits: int
) -> None:
    cache = kind()
    x = mx.random.normal((1, 2, 7, 64), key=mx.random.key(0))
    cache.update_and_fetch(x, -x)
    cache.trim(2)
    quantized = cache.to_quantized(group_size=32, bits=bits)
    assert isinstance(quantized, QuantizedKVCache)
    assert (quantized.offset, quantized.bits, quantized.group_size) == (5, bits, 32)
    keys, _ = quantized.state
    assert keys is not None
    unpacked = mx.dequantize(*keys, group_size=32, bits=bits)
    np.testing.assert_allclose(unpacked, x[:, :, :5], atol=0.5 if bits == 4 else 0.03)


def test_an_empty_cache_becomes_an_empty_quantized_or_bounded_one() -> None:
    assert KVCache().to_quantized().empty()
    for kind in (KVCache, ConcatenateKVCache):
        bounded = kind().bounded(16, keep=2)
        assert isinstance(bounded, RotatingKVCache)
        assert (bounded.max_size, bounded.keep, bounded.offset) == (16, 2, 0)
