import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import (
    BatchQuantizedKVCache,
    BatchRotatingQuantizedKVCache,
    Cache,
    CacheNotMergeable,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
    scaled_dot_product_attention,
)


def attended(cache: Cache, x: mx.array) -> mx.array:
    mask = cache.make_mask(x.shape[2])
    return scaled_dot_product_attention(x, *cache.update_and_fetch(x, -x), cache, 0.1, mask)


@pytest.mark.parametrize("kind", [QuantizedKVCache, RotatingQuantizedKVCache])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_batch_attends_as_each_alone(kind: type, bits: int) -> None:
    settings = {"group_size": 32, "bits": bits}
    bound = {"max_size": 7, "keep": 2} if kind is RotatingQuantizedKVCache else {}
    singles = [kind(**bound, **settings) for _ in range(3)]
    for i, (single, n) in enumerate(zip(singles, (4, 11, 9), strict=True)):
        attended(single, mx.random.normal((1, 2, n, 32), key=mx.random.key(i)))
    batch = kind.merge(singles)  # type: ignore[attr-defined]
    assert isinstance(batch, (BatchQuantizedKVCache, BatchRotatingQuantizedKVCache))
    assert (batch.bits, batch.group_size) == (bits, 32)
    for step in range(8):
        x = mx.random.normal((3, 2, 1 + step % 2, 32), key=mx.random.key(100 + step))
        out = attended(batch, x)
        for i, single in enumerate(singles):
            np.testing.assert_allclose(out[i], attended(single, x[i : i + 1])[0], atol=1e-4)
    again = type(batch).from_state(batch.state, batch.meta_state)
    x = mx.random.normal((3, 2, 1, 32), key=mx.random.key(7))
    np.testing.assert_array_equal(attended(again, x), attended(batch, x))


def test_other_settings_are_another_batch() -> None:
    with pytest.raises(CacheNotMergeable, match="has bits=8, and the first cache 4"):
        QuantizedKVCache.merge([QuantizedKVCache(bits=4), QuantizedKVCache(bits=8)])
    with pytest.raises(CacheNotMergeable, match="group_size=32"):
        RotatingQuantizedKVCache.merge(
            [RotatingQuantizedKVCache(8), RotatingQuantizedKVCache(8, group_size=32)]
        )
