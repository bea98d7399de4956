from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import (
    ArraysCache,
    Cache,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    checkpoint_prompt_cache,
)
from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.need import CacheNeed


@pytest.mark.parametrize(
    "make",
    [
        lambda: [KVCache(), KVCache()],
        lambda: [RotatingKVCache(300), RotatingKVCache(9, keep=2)],
        lambda: [QuantizedKVCache(32, 8), KVCache()],
    ],
)
@pytest.mark.parametrize("tokens", [1, 9, 256, 257, 700])
def test_need_is_what_caches_take(model: Any, make: Any, tokens: int) -> None:
    need = CacheNeed(model, make(), None)
    cache: list[Cache] = make()
    model(mx.zeros((1, tokens), dtype=mx.uint32), cache=cache)
    assert need(tokens) >= sum(c.nbytes for c in cache)
    assert need(tokens) <= sum(c.nbytes for c in cache) + 64 * 256 * 8  # part of a block


def test_recurrent_state_is_of_one_size(hybrid_model: Any) -> None:
    need = CacheNeed(hybrid_model, [ArraysCache(1), RotatingKVCache(4)], None)
    assert need(1) == need(5000) == 64 * 4 + 4 * 2 * 64 * 4


def test_quantized_caches_take_most_just_before(model: Any) -> None:
    plain = CacheNeed(model, [KVCache(), KVCache()], None)
    how = KVQuantization(bits=4, group_size=32, start=1024)
    need = CacheNeed(model, [KVCache(), KVCache()], how)
    assert need(1000) == plain(1000)
    assert need(2048) == plain(1024)
    assert plain(1024) < need(20_000) < plain(20_000) / 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: [RotatingKVCache(300), RotatingKVCache(9, keep=2)],
        lambda: [ChunkedKVCache(9), KVCache()],
    ],
)
def test_need_counts_the_slots_of_tokens_that_may_come_back(model: Any, make: Any) -> None:
    need = CacheNeed(model, make(), back=200)
    cache: list[Cache] = make()
    checkpoint_prompt_cache(cache, 200)
    for _ in range(8):
        model(mx.zeros((1, 100), dtype=mx.uint32), cache=cache)
    assert sum(c.nbytes for c in cache) <= need(800)


def test_need_counts_recurrent_states_to_go_back_to(hybrid_model: Any) -> None:
    def make() -> list[Cache]:
        return [ArraysCache(1), RotatingKVCache(4)]

    need, without = CacheNeed(hybrid_model, make(), back=5), CacheNeed(hybrid_model, make())
    cache = make()
    checkpoint_prompt_cache(cache, 5)
    for _ in range(9):
        hybrid_model(mx.zeros((1, 1), dtype=mx.uint32), cache=cache)
    assert without(9) < sum(c.nbytes for c in cache) <= need(9)
