from typing import Any

import mlx.core as mx
from mlxlm_cache import ArraysCache, CacheList, KVCache, QuantizedKVCache
from mlxlm_cache.reuse import contract


def test_all_arrays_of_a_cache_are_counted_wherever_it_keeps_them() -> None:
    recurrent = ArraysCache(2)
    recurrent.checkpoint(4)
    x = mx.zeros((1, 1, 4, 64))
    for _ in range(4):
        recurrent[0] = mx.zeros((1, 1000))
        recurrent.advance(1)
    packed, plain = QuantizedKVCache(), KVCache()
    packed.update_and_fetch(x, x)
    plain.update_and_fetch(x, x)
    cache: list[Any] = [CacheList(recurrent, packed), plain]
    assert contract.nbytes(cache) >= sum(c.nbytes for c in (recurrent, packed, plain))
    assert contract.nbytes([plain]) == plain.nbytes


def test_what_copies_share_is_counted_once() -> None:
    cache = KVCache()
    x = mx.zeros((1, 1, 4, 64))
    cache.update_and_fetch(x, x)
    copies = [cache, cache.copy(), cache.copy().copy()]
    assert contract.nbytes(copies) == cache.nbytes
    copies[1].update_and_fetch(x, x)
    assert contract.nbytes(copies) == cache.nbytes
    copies[2].update_and_fetch(x, x)  # another one holds this slot
    assert contract.nbytes(copies) == 2 * cache.nbytes
