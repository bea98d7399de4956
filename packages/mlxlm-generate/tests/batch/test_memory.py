from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import ArraysCache, Cache, KVCache, QuantizedKVCache, RotatingKVCache
from mlxlm_generate.batch.memory import CacheNeed, default_budget
from mlxlm_generate.kv import KVQuantization


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


def test_the_default_leaves_room(model: Any) -> None:
    from mlxlm_cache.device import total_memory

    assert 0 < default_budget(model) < total_memory()
