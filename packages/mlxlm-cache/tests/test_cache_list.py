import mlx.core as mx
import pytest
from mlxlm_cache import (
    ArraysCache,
    BatchKVCache,
    CacheList,
    CacheNotMergeable,
    CacheNotTrimmable,
    ConcatenateKVCache,
    KVCache,
    RotatingKVCache,
)


def feed(caches: CacheList, n: int) -> None:
    x = mx.zeros((1, 1, n, 8))
    for cache in caches:
        cache.update_and_fetch(x, x)


def test_the_mask_is_of_the_cache_that_holds_keys() -> None:
    caches = CacheList(ArraysCache(1), KVCache())
    caches[1].update_and_fetch(mx.zeros((1, 1, 3, 8)), mx.zeros((1, 1, 3, 8)))
    mask = caches.make_mask(2, return_array=True)
    assert isinstance(mask, mx.array)
    assert mask.tolist() == [[True] * 4 + [False], [True] * 5]


def test_R08_trim_takes_the_same_from_all() -> None:
    caches = CacheList(KVCache(), RotatingKVCache(16), ConcatenateKVCache())
    feed(caches, 10)
    assert caches.trim(3) == 3
    assert [c.offset for c in caches] == [7, 7, 7]
    assert caches.trim(100) == 7
    assert caches.empty()


def test_R08_trim_raises_before_any_change() -> None:
    caches = CacheList(KVCache(), RotatingKVCache(8), KVCache())
    feed(caches, 10)
    assert not caches.is_trimmable()
    assert caches.capabilities.trim == 0
    with pytest.raises(CacheNotTrimmable, match="RotatingKVCache in a CacheList cannot take 2"):
        caches.trim(2)
    assert [c.offset for c in caches] == [10, 10, 10]


def test_R08_an_unused_cache_does_not_stop_a_trim() -> None:
    caches = CacheList(KVCache(), ArraysCache(2))
    feed(CacheList(caches[0]), 10)
    assert caches.trim(4) == 4


def test_rows_are_taken_back_from_all_or_none() -> None:
    one, other = (CacheList(KVCache(), RotatingKVCache(8)) for _ in range(2))
    feed(one, 5)
    feed(other, 12)
    batch = CacheList.merge([one, other])
    with pytest.raises(CacheNotTrimmable, match="row 1"):
        batch.trim_rows([1, 2])
    assert [c.offsets for c in batch] == [[5, 12], [5, 12]]  # type: ignore[attr-defined]
    assert batch.trim_rows([2, 0]) == [2, 0]
    assert [c.offsets for c in batch] == [[3, 12], [3, 12]]  # type: ignore[attr-defined]


def test_it_has_the_methods_that_its_caches_have() -> None:
    assert CacheList(KVCache(), ArraysCache(1)).capabilities.quantize
    assert not CacheList(ArraysCache(1)).capabilities.quantize
    assert not hasattr(CacheList(ArraysCache(1)), "bounded")
    assert CacheList(ArraysCache(1)).capabilities.checkpoint
    assert not CacheList(KVCache()).capabilities.checkpoint
    with pytest.raises(AttributeError, match="'CacheList' has no attribute 'nonsense'"):
        CacheList().nonsense  # noqa: B018


def test_a_copy_is_independent() -> None:
    caches = CacheList(KVCache(), KVCache())
    feed(caches, 3)
    copied = caches.copy()
    feed(copied, 2)
    assert (caches.offset, copied.offset) == (3, 5)


def test_lists_merge_cache_by_cache() -> None:
    one, other = (CacheList(KVCache(), ArraysCache(1)) for _ in range(2))
    feed(CacheList(one[0]), 3)
    batch = CacheList.merge([one, other])
    assert isinstance(batch[0], BatchKVCache)
    assert batch.offset.tolist() == [3, 0]
    assert batch.extract(0).offset == 3
    with pytest.raises(CacheNotMergeable, match="different lengths"):
        CacheList.merge([one, CacheList(KVCache())])


def test_nested_lists_come_back_from_their_state() -> None:
    caches = CacheList(CacheList(KVCache(), RotatingKVCache(4)), KVCache())
    inner = caches[0]
    assert isinstance(inner, CacheList)
    feed(inner, 6)
    again = CacheList.from_state(caches.state, caches.meta_state)
    nested = again[0]
    assert isinstance(nested, CacheList)
    assert [c.offset for c in nested] == [6, 6]
    assert again[1].empty()
    assert [type(leaf) for leaf in again.leaves()] == [KVCache, RotatingKVCache, KVCache]
