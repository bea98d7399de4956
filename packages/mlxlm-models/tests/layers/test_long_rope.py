from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, QuantizedKVCache, RotatingKVCache
from mlxlm_models.layers.rope import LongRopeSpec

D = 64
SHORT = tuple(10000.0 ** (i / D) for i in range(0, D, 2))
LONG = tuple(wave * (1 + i / 16) for i, wave in enumerate(SHORT))
ROPE = LongRopeSpec(D, freqs=SHORT, long_freqs=LONG, original_length=16, magnitude=1.2).build()
KEYS = mx.random.normal((1, 2, 24, D), key=mx.random.key(0))


def fill(cache: Any, sizes: list[int], start: int = 0) -> Any:
    for size in sizes:
        part = KEYS[:, :, start : start + size]
        _, keys = ROPE(part, part, cache)
        cache.update_and_fetch(keys, part)
        start += size
    return cache


def at(offset: Any) -> Any:
    return SimpleNamespace(offset=offset, size=lambda: 0)


def held(cache: Any) -> Any:
    keys = cache.state[0]
    if isinstance(keys, tuple):
        packed, scales, biases = keys
        return mx.dequantize(packed, scales, biases, group_size=cache.group_size, bits=cache.bits)
    return keys


def whole(length: int) -> Any:
    return ROPE(KEYS[:, :, :length], KEYS[:, :, :length])[1]


@pytest.mark.parametrize("make", [KVCache, lambda: RotatingKVCache(64)])
@pytest.mark.parametrize("sizes", [[10, 9], [16, 1], [4, 4, 8, 8], [1] * 20, [24]])
def test_keys_held_are_those_of_a_whole_prompt(make: Any, sizes: list[int]) -> None:
    cache = fill(make(), sizes)
    assert mx.allclose(held(cache), whole(sum(sizes)), atol=1e-5).item()
    assert cache.offset == sum(sizes)


def test_trimming_back_turns_the_keys_back() -> None:
    cache = fill(KVCache(), [10, 10])
    cache.trim(8)
    fill(cache, [2], start=12)
    assert mx.allclose(held(cache), whole(14), atol=1e-5).item()


def test_packed_keys_turn_too() -> None:
    cache = fill(QuantizedKVCache(group_size=64, bits=8), [10, 10])
    assert mx.allclose(held(cache), whole(20), atol=0.05).item()
    assert not mx.allclose(held(cache)[:, :, :10], whole(10), atol=0.05).item()


def test_a_window_that_dropped_tokens_keeps_its_set() -> None:
    cache = fill(RotatingKVCache(8), [6, 6])
    before = mx.array(held(cache))
    part = KEYS[:, :, 12:20]
    _, keys = ROPE(part, part, cache)
    assert mx.array_equal(held(cache), before).item()
    short = LongRopeSpec(D, freqs=SHORT, long_freqs=SHORT, original_length=16, magnitude=1.2)
    assert mx.allclose(keys, short.build()(part, part, cache)[1], atol=1e-5).item()


def test_sequences_of_a_batch_choose_by_their_own_length() -> None:
    pair = mx.repeat(KEYS[:, :, :4], 2, axis=0)
    _, keys = ROPE(pair, pair, at(mx.array([3, 15])))
    for row, offset in ((0, 3), (1, 15)):
        cache = at(offset)
        cache._long_rope = offset + 4 > 16
        alone = ROPE(pair[:1], pair[:1], cache)[1]
        assert mx.allclose(keys[row], alone[0], atol=1e-5).item()
