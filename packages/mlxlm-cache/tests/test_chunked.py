import gc
from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import CacheNotTrimmable, ChunkedKVCache, blocks


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 4)
        yield


def seen(cache: ChunkedKVCache, length: int) -> list[list[int]]:
    """Feed the next tokens, whose keys are their positions; return what each sees."""
    start = cache.offset
    mask = cache.make_mask(length)
    x = mx.arange(start, start + length).astype(mx.float32).reshape(1, 1, length, 1)
    keys, values = cache.update_and_fetch(x, -x)
    assert mx.array_equal(keys, -values)
    size = keys.shape[2]
    if mask is None:
        full = np.ones((length, size), dtype=bool)
    elif isinstance(mask, str):
        full = np.arange(size) <= np.arange(length)[:, None] + size - length
    else:
        full = np.array(mask)
    positions = np.array(keys).ravel().astype(int)
    return [positions[row].tolist() for row in full]


def chunk(position: int, size: int) -> list[int]:
    return list(range(position // size * size, position + 1))


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 9), lengths=st.lists(st.integers(1, 14), max_size=8))
def test_each_position_sees_its_chunk(size: int, lengths: list[int]) -> None:
    cache = ChunkedKVCache(size)
    for length in lengths:
        start = cache.offset
        assert seen(cache, length) == [chunk(start + i, size) for i in range(length)]
        assert min(size, cache.offset) <= cache.size() <= max(2 * size, size + 8)


def test_a_single_token_needs_no_mask() -> None:
    cache = ChunkedKVCache(4)
    for _ in range(20):
        assert cache.make_mask(1) is None
        seen(cache, 1)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 9),
    slack=st.integers(0, 4),
    lengths=st.lists(st.integers(1, 14), max_size=8),
    n=st.integers(0, 30),
)
def test_R17_a_slid_cache_takes_back_what_leaves_a_whole_chunk(
    size: int, slack: int, lengths: list[int], n: int
) -> None:
    cache = ChunkedKVCache(size, slack)
    for length in lengths:
        seen(cache, length)
    offset, held = cache.offset, cache.size()
    assert cache.is_trimmable() == (held == offset)
    most = cache.capabilities.trim
    assert most >= min(slack, offset)
    if n > most and most < offset:
        with pytest.raises(CacheNotTrimmable, match=f"holds positions {offset - held} to"):
            cache.trim(n)
        assert cache.offset == offset
        return
    assert cache.trim(n) == min(n, offset)
    start = cache.offset
    assert seen(cache, 2) == [chunk(start, size), chunk(start + 1, size)]


def test_R17_a_slid_chunked_cache_asked_to_trim() -> None:
    cache = ChunkedKVCache(4)
    seen(cache, 6)
    seen(cache, 3)
    assert (cache.size(), cache.start_position) == (7, 8)
    assert cache.capabilities.trim == 5  # position 3 would need the chunk from 0 on
    with pytest.raises(CacheNotTrimmable, match="holds positions 2 to 8, too few to take 6 back"):
        cache.trim(6)
    assert cache.trim(1) == 1
    assert seen(cache, 1) == [[8]]
    assert cache.trim(4) == 4
    assert seen(cache, 2) == [[4, 5], [4, 5, 6]]


def test_the_front_is_forgotten_once_it_is_as_long_as_what_is_wanted() -> None:
    cache = ChunkedKVCache(8)
    seen(cache, 16)
    assert cache.size() == 16
    cache = ChunkedKVCache(8)
    seen(cache, 17)
    assert cache.size() == 8
    assert seen(cache, 2) == [chunk(17, 8), chunk(18, 8)]


def test_the_state_is_what_is_held() -> None:
    cache = ChunkedKVCache(4, slack=1)
    seen(cache, 30)
    keys, _ = cache.state
    assert keys is not None
    assert keys.shape[2] == cache.size()
    again = ChunkedKVCache.from_state(cache.state, cache.meta_state)
    assert (again.meta_state, again.slack) == (cache.meta_state, 1)
    assert seen(again, 3) == seen(cache, 3)
    with pytest.raises(ValueError, match="do not hold the chunk of 30"):
        ChunkedKVCache.from_state(cache.state, ("30", "4", "29"))


@pytest.mark.parametrize(("size", "slack"), [(0, 0), (4, -1)])
def test_sizes_that_make_no_sense_are_an_error(size: int, slack: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        ChunkedKVCache(size, slack)


def test_memory_is_capped_also_by_long_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 256)
    cache = ChunkedKVCache(300)
    token = 2 * 2 * 8 * 4  # keys and values of two heads of eight floats
    gc.collect()
    before = mx.get_active_memory()
    for length in (4000, 1, 250, 270, 4000):
        x = mx.zeros((1, 2, length, 8))
        cache.update_and_fetch(x, x)
        mx.eval(cache.state)
        del x
        most = 300 if length == 4000 else 1024
        assert cache.nbytes <= most * token
        assert mx.get_active_memory() - before < (most + 100) * token
