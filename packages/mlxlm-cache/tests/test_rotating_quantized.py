import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import RotatingKVCache, RotatingQuantizedKVCache, scaled_dot_product_attention


def attended(cache: RotatingKVCache | RotatingQuantizedKVCache, x: mx.array) -> mx.array:
    mask = cache.make_mask(x.shape[2])
    return scaled_dot_product_attention(x, *cache.update_and_fetch(x, -x), cache, 0.1, mask)


@pytest.mark.parametrize("keep", [0, 3])
def test_R10_the_window_and_the_sinks_survive(keep: int) -> None:
    cache = RotatingKVCache(8, keep=keep, slack=1)
    attended(cache, mx.random.normal((1, 1, 20, 64), key=mx.random.key(0)))
    quantized = cache.to_quantized(group_size=32, bits=8)
    assert isinstance(quantized, RotatingQuantizedKVCache)
    assert (quantized.offset, quantized.keep, quantized.slack) == (20, keep, 1)
    for step, length in enumerate((1, 1, 5, 1, 12, 1)):
        x = mx.random.normal((1, 1, length, 64), key=mx.random.key(1 + step))
        np.testing.assert_allclose(attended(quantized, x), attended(cache, x), atol=0.05)
    assert quantized.size() == cache.size() == 9
    again = RotatingQuantizedKVCache.from_state(quantized.state, quantized.meta_state)
    assert again.meta_state == quantized.meta_state
    x = mx.random.normal((1, 1, 3, 64), key=mx.random.key(9))
    assert mx.array_equal(attended(again, x), attended(quantized, x))


def test_an_empty_one_is_bounded_and_quantized() -> None:
    assert RotatingKVCache(8, keep=2).to_quantized(bits=4).empty()
    cache = RotatingQuantizedKVCache(512, bits=4).bounded(128, keep=4)
    assert (cache.max_size, cache.keep, cache.bits) == (128, 0, 4)
