import mlx.core as mx
import pytest
from mlxlm_cache import ArraysCache, CacheNotMergeable, CacheNotTrimmable, KVCache


def step(cache: ArraysCache, seed: int, rows: int = 1, dtype: mx.Dtype = mx.bfloat16) -> mx.array:
    """Go through one token; return the state after it."""
    new = mx.random.normal((rows, 4, 4), dtype=dtype, key=mx.random.key(seed))
    state = new if cache[0] is None else cache[0] * 0.9 + new
    cache[0] = state
    cache.advance(1)
    return state


def test_padding_is_masked_as_it_comes() -> None:
    cache = ArraysCache(1, left_padding=[1, 3])
    mask = cache.make_mask(2)
    assert isinstance(mask, mx.array)
    assert mask.tolist() == [[False, True], [False, False]]
    cache.advance(2)
    mask = cache.make_mask(2)
    assert isinstance(mask, mx.array)
    assert mask.tolist() == [[True, True], [False, True]]
    cache.advance(2)
    assert cache.make_mask(2) is None
    assert cache.offsets == [3, 1]

    cache.prepare(lengths=[3, 1], right_padding=[0, 2])
    assert cache.make_mask(1) is None
    mask = cache.make_mask(2)
    assert isinstance(mask, mx.array)
    assert mask.tolist() == [[True, True], [True, False]]
    assert cache.lengths is not None
    assert cache.lengths.tolist() == [3, 1]
    cache.advance(2)
    cache.advance(1)
    cache.finalize()
    assert cache.lengths is None
    assert cache.offsets == [6, 2]


def test_R23_going_back_restores_every_bit() -> None:
    cache = ArraysCache(1)
    cache.checkpoint(5)
    states = [step(cache, i) for i in range(20)]
    assert cache.capabilities.trim == 5
    assert cache.trim(3) == 3
    assert cache.offset == 17
    assert cache[0] is not None
    assert mx.array_equal(cache[0].view(mx.uint16), states[16].view(mx.uint16))
    again = [step(cache, i) for i in range(17, 20)]
    for ours, theirs in zip(again, states[17:], strict=True):
        assert mx.array_equal(ours.view(mx.uint16), theirs.view(mx.uint16))


def test_R23_a_snapshot_is_safe_from_writing_in_place() -> None:
    cache = ArraysCache(1)
    cache[0] = mx.zeros((1, 3))
    cache.advance(1)
    cache.checkpoint(2)
    state = cache[0]
    state[0, 1] = 7.0
    cache.advance(1)
    cache.rollback(1)
    assert cache[0].tolist() == [[0.0, 0.0, 0.0]]


def test_memory_is_bounded_by_the_tokens_one_may_want_back() -> None:
    cache = ArraysCache(1)
    cache.checkpoint(4)
    for i in range(100):
        step(cache, i)
    assert cache.nbytes == 5 * 4 * 4 * 2  # the present and four before
    cache.checkpoint(0)
    assert cache.nbytes == 4 * 4 * 2
    assert not cache.recording


def test_a_chunk_is_taken_back_as_a_whole_or_not_at_all() -> None:
    cache = ArraysCache(1)
    cache.checkpoint(8)
    before = step(cache, 0)
    cache[0] = mx.ones((1, 4, 4))
    cache.advance(5)
    assert [n for n in range(8) if cache.can_trim(n)] == [0, 5, 6, 7]
    assert cache.capabilities.trim == 0
    with pytest.raises(CacheNotTrimmable, match="cannot take 3 tokens back: it can go back 5, 6"):
        cache.trim(3)
    assert cache.offset == 6
    assert cache.trim(5) == 5
    assert cache[0] is not None
    assert mx.array_equal(cache[0], before)


def test_without_a_checkpoint_the_error_says_how() -> None:
    cache = ArraysCache(1)
    step(cache, 0)
    assert not cache.is_trimmable()
    with pytest.raises(CacheNotTrimmable, match=r"call checkpoint\(tokens\) before"):
        cache.trim(1)
    assert cache.trim(0) == 0
    assert ArraysCache(1).trim(1) == 0


def test_rows_go_back_apart() -> None:
    cache = ArraysCache(1)
    cache.checkpoint(4)
    states = [step(cache, i, rows=3) for i in range(6)]
    assert cache.trim_rows([0, 2, 4]) == [0, 2, 4]
    assert cache.offsets == [6, 4, 2]
    assert cache[0] is not None
    for row, at in enumerate([5, 3, 1]):
        assert mx.array_equal(cache[0][row], states[at][row])


def test_a_new_row_joins_with_zeros() -> None:
    used, new = ArraysCache(2), ArraysCache(2)
    state = step(used, 0)
    batch = ArraysCache.merge([new, used])
    assert batch.offsets == [0, 1]
    assert batch[0] is not None
    assert batch[1] is None
    assert mx.array_equal(batch[0], mx.concatenate([mx.zeros_like(state), state]))


def test_what_does_not_go_together_is_an_error() -> None:
    with pytest.raises(CacheNotMergeable, match="width=3"):
        ArraysCache.merge([ArraysCache(2), ArraysCache(3)])
    with pytest.raises(CacheNotMergeable, match="KVCache"):
        ArraysCache.merge([ArraysCache(2), KVCache()])
    with pytest.raises(ValueError, match="right_padding needs the lengths"):
        ArraysCache(1).prepare(right_padding=[0, 1])


def test_a_state_of_mlx_lm_needs_no_offsets() -> None:
    state = mx.zeros((2, 3))
    cache = ArraysCache.from_state([[state, None], None, None])
    assert not cache.empty()
    assert cache.rows == 2
    with pytest.raises(ValueError, match="offsets of 3 sequences"):
        ArraysCache.from_state([[state, None], None, None], ("1", "2", "3"))
