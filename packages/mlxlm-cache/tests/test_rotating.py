import gc
import itertools
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import CacheNotBounded, CacheNotTrimmable, RotatingKVCache

Bounds = st.integers(1, 9).flatmap(lambda m: st.tuples(st.just(m), st.integers(0, m - 1)))
Chunks = st.lists(st.integers(1, 14), min_size=1, max_size=8)
Window = st.none() | st.integers(1, 12)


def visible(position: int, max_size: int, keep: int, window: int | None) -> set[int]:
    """Return what a position sees, by simulating one slot after the other."""
    slots: list[int] = []
    for p in range(position + 1):
        if len(slots) < max_size:
            slots.append(p)
        else:
            oldest = min(slots[keep:])
            slots[slots.index(oldest)] = p
    return {p for p in slots if window is None or p > position - window}


def seen(cache: RotatingKVCache, length: int, window: int | None) -> list[set[int]]:
    """Feed the next tokens, whose keys are their positions; return what each sees."""
    start = cache.offset
    mask = cache.make_mask(length, window_size=window)
    x = mx.arange(start, start + length).astype(mx.float32).reshape(1, 1, length, 1)
    keys, values = cache.update_and_fetch(x, -x)
    positions = [int(p) for p in np.array(keys).ravel()]
    assert mx.array_equal(keys, -values)
    if mask is None:
        assert length == 1
        rows = [[True] * len(positions)]
    elif isinstance(mask, str):
        n = len(positions)
        rows = [[k <= n - length + q for k in range(n)] for q in range(length)]
    else:
        assert mask.shape == (length, len(positions))
        assert mask.dtype == mx.bool_
        rows = np.array(mask).tolist()
    return [set(itertools.compress(positions, row)) for row in rows]


@settings(max_examples=150, deadline=None)
@given(bounds=Bounds, chunks=Chunks, window=Window)
def test_each_position_sees_the_same_whatever_the_chunks(
    bounds: tuple[int, int], chunks: list[int], window: int | None
) -> None:
    cache = RotatingKVCache(*bounds)
    for length in chunks:
        start = cache.offset
        for i, positions in enumerate(seen(cache, length, window)):
            assert positions == visible(start + i, *bounds, window)
        assert cache.size() == min(cache.offset, cache.max_size)


@settings(max_examples=60, deadline=None)
@given(bounds=Bounds, chunks=Chunks, more=st.integers(1, 14))
def test_a_cache_rebuilt_at_any_time_goes_on_alike(
    bounds: tuple[int, int], chunks: list[int], more: int
) -> None:
    cache = RotatingKVCache(*bounds)
    for length in chunks:
        seen(cache, length, None)
    again = RotatingKVCache.from_state(cache.state, cache.meta_state)
    assert again.meta_state == cache.meta_state
    assert seen(again, more, None) == seen(cache, more, None)


@settings(max_examples=60, deadline=None)
@given(bounds=Bounds, chunks=Chunks, n=st.integers(0, 20))
def test_trim_works_until_a_token_is_dropped(
    bounds: tuple[int, int], chunks: list[int], n: int
) -> None:
    cache = RotatingKVCache(*bounds)
    for length in chunks:
        seen(cache, length, None)
    offset = cache.offset
    assert cache.is_trimmable() == (offset <= cache.max_size)
    if n and not cache.is_trimmable():
        with pytest.raises(CacheNotTrimmable, match="RotatingKVCache has dropped tokens"):
            cache.trim(n)
        assert cache.offset == offset
        assert cache.capabilities.trim == 0
        return
    assert cache.trim(n) == min(n, offset)
    start = cache.offset
    assert seen(cache, 1, None) == [visible(start, *bounds, None)]


@settings(max_examples=150, deadline=None)
@given(
    bounds=Bounds,
    slack=st.integers(0, 5),
    acts=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), max_size=8),
    window=Window,
)
def test_R23_a_slack_is_unseen_and_can_be_taken_back(
    bounds: tuple[int, int], slack: int, acts: list[tuple[int, int]], window: int | None
) -> None:
    cache = RotatingKVCache(*bounds, slack=slack)
    since = 0  # tokens that came after what was last given back
    for length, back in acts:
        start = cache.offset
        for i, positions in enumerate(seen(cache, length, window)):
            assert positions == visible(start + i, *bounds, window)
        since += length
        assert cache.size() <= cache.max_size + slack
        assert cache.capabilities.trim >= min(slack, since)
        n = min(back, cache.capabilities.trim)
        assert cache.trim(n) == n
        since = max(0, min(since, slack) - n)


@settings(max_examples=60, deadline=None)
@given(bounds=Bounds, chunks=Chunks, slacks=st.lists(st.integers(0, 5), max_size=3))
def test_R23_a_checkpoint_changes_the_slack_at_any_time(
    bounds: tuple[int, int], chunks: list[int], slacks: list[int]
) -> None:
    cache = RotatingKVCache(*bounds)
    for slack in [0, *slacks]:
        cache.checkpoint(slack)
        for length in chunks:
            start = cache.offset
            for i, positions in enumerate(seen(cache, length, None)):
                assert positions == visible(start + i, *bounds, None)
        assert cache.size() <= cache.max_size + slack


@pytest.mark.parametrize("keep", [0, 4])
def test_memory_is_capped_also_by_chunks_longer_than_the_window(keep: int) -> None:
    cache = RotatingKVCache(300, keep=keep)
    token = 2 * 2 * 8 * 4  # keys and values of two heads of eight floats
    mx.eval(cache.update_and_fetch(mx.zeros((1, 2, 1, 8)), mx.zeros((1, 2, 1, 8))))
    assert cache.nbytes == 256 * token
    gc.collect()
    before = mx.get_active_memory()
    for length in (500, 1, 4000, 250, 270, 1, 300, 1):
        x = mx.zeros((1, 2, length, 8))
        cache.update_and_fetch(x, x)
        mx.eval(cache.state)
        del x
        held = mx.get_active_memory() - before
        if length in (1, 4000):
            assert cache.nbytes == 300 * token
            assert held < 400 * token
        else:  # what a chunk pushed out goes with the next token
            assert 300 * token <= cache.nbytes <= 600 * token
            assert held < cache.nbytes + 100 * token


def test_a_copy_and_a_compact_cache_hold_what_was_pushed_out_no_longer_than_it_is_shared() -> None:
    cache = RotatingKVCache(8, keep=2)
    for length in (7, 5):
        x = mx.arange(cache.offset, cache.offset + length).astype(mx.float32)
        cache.update_and_fetch(*[x.reshape(1, 1, length, 1)] * 2)
    copied = cache.copy()
    cache.compact()
    assert cache.nbytes == copied.nbytes == 12 * 8
    state = cache.state
    del copied
    cache.compact()
    assert cache.nbytes == 8 * 8
    for before, after in zip(state, cache.state, strict=True):
        assert after.reshape(-1).tolist() == [0, 1, 6, 7, 8, 9, 10, 11]
        assert mx.array_equal(before, after)


def test_a_bound_near_the_block_is_not_exceeded() -> None:
    cache = RotatingKVCache(257)
    x = mx.zeros((1, 1, 257, 8))
    keys, _ = cache.update_and_fetch(x, x)
    assert keys.shape[2] == 257
    keys, _ = cache.update_and_fetch(x[:, :, :1], x[:, :, :1])
    assert keys.shape[2] == 257


@pytest.mark.parametrize(("keep", "lengths"), [(0, [5, 9, 1, 1, 6]), (2, [3, 1, 1, 12, 1, 7])])
def test_attention_over_chunks_equals_brute_force(
    keep: int,
    lengths: list[int],
    attention: Callable[..., np.ndarray],
    tokens: Callable[..., mx.array],
) -> None:
    cache = RotatingKVCache(6, keep=keep)
    total = sum(lengths)
    everything = tokens(0, 0)
    outputs = []
    for length in lengths:
        x = tokens(cache.offset, length)
        everything = mx.concatenate([everything, x], axis=2)
        mask = cache.make_mask(length)
        keys, values = cache.update_and_fetch(x, -x)
        outputs.append(mx.fast.scaled_dot_product_attention(x, keys, values, scale=0.01, mask=mask))
    allowed = np.array(
        [[k in visible(q, 6, keep, None) for k in range(total)] for q in range(total)]
    )
    all_x = np.array(everything)
    expected = attention(all_x, all_x, -all_x, 0.01, allowed)
    np.testing.assert_allclose(mx.concatenate(outputs, axis=2), expected, atol=1e-4)


@pytest.mark.parametrize(("max_size", "keep"), [(0, 0), (4, 4), (4, -1)])
def test_bounds_that_hold_nothing_are_an_error(max_size: int, keep: int) -> None:
    with pytest.raises(ValueError, match=f"max_size={max_size} and keep={keep}"):
        RotatingKVCache(max_size, keep=keep)


def test_a_smaller_bound_wins_and_a_larger_one_changes_nothing() -> None:
    assert RotatingKVCache(512).bounded(128, keep=4).max_size == 128
    assert RotatingKVCache(64).bounded(128, keep=4).max_size == 64
    assert RotatingKVCache(64).bounded(128, keep=4).keep == 0
    with pytest.raises(CacheNotBounded, match="more than keep=8"):
        RotatingKVCache(64, keep=8).bounded(8, keep=4)


def test_a_window_of_nothing_is_an_error() -> None:
    cache = RotatingKVCache(2)
    seen(cache, 2, None)
    with pytest.raises(ValueError, match="window_size must be 1 or more, not 0"):
        cache.make_mask(1, window_size=0)
