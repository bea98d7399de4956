import mlx.core as mx
import pytest
from mlxlm_cache import CacheNotQuantizable, QuantizedKVCache


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"bits": 7}, "bits must be one of .*, not 7"), ({"group_size": 48}, "group_size .* not 48")],
)
def test_settings_that_mlx_has_not_are_an_error(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuantizedKVCache(**arguments)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_every_setting_stores_and_grows(bits: int, group_size: int) -> None:
    cache = QuantizedKVCache(group_size=group_size, bits=bits)
    x = mx.random.normal((1, 1, 200, 128), key=mx.random.key(0))
    cache.update_and_fetch(x, x)
    keys, _ = cache.update_and_fetch(x, x)
    whole = mx.quantize(mx.concatenate([x, x], axis=2), group_size=group_size, bits=bits)
    for part, expected in zip(keys, whole, strict=True):
        assert mx.array_equal(part, expected)


def test_a_head_dimension_that_does_not_divide_says_what_to_do() -> None:
    cache = QuantizedKVCache(group_size=64)
    with pytest.raises(CacheNotQuantizable, match="head dimension of 80 .* groups of 64"):
        cache.update_and_fetch(mx.zeros((1, 1, 1, 80)), mx.zeros((1, 1, 1, 80)))
    assert cache.empty()
