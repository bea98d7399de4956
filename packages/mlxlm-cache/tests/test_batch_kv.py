import mlx.core as mx
import pytest
from mlxlm_cache import (
    BatchKVCache,
    BatchQuantizedKVCache,
    CacheNotMergeable,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
)


def of(n: int, start: int = 0) -> mx.array:
    """Return keys that are numbers from `start` on, (1, 1, n, 4)."""
    x = mx.arange(start, start + n).astype(mx.float32).reshape(1, 1, n, 1)
    return mx.broadcast_to(x, (1, 1, n, 4))


def filled(n: int, start: int = 0) -> KVCache:
    cache = KVCache()
    if n:
        cache.update_and_fetch(of(n, start), -of(n, start))
    return cache


def ids(keys: mx.array) -> list[list[int]]:
    return keys[:, 0, :, 0].astype(mx.int32).tolist()  # type: ignore[return-value]


def test_prompts_padded_on_the_left_are_those_of_the_reference() -> None:
    cache = BatchKVCache(left_padding=[1, 3, 0])
    assert cache.offset.tolist() == [-1, -3, 0]
    x = mx.zeros((3, 1, 4, 4))
    mask = cache.make_mask(4)
    assert isinstance(mask, mx.array)
    assert mask.shape == (3, 1, 4, 4)
    cache.update_and_fetch(x, x)
    assert cache.offset.tolist() == [3, 1, 4]
    mask = cache.make_mask(1)
    assert isinstance(mask, mx.array)
    assert mask[:, 0, 0].tolist() == [
        [False, True, True, True, True],
        [False, False, False, True, True],
        [True] * 5,
    ]


def test_a_batch_without_padding_needs_no_mask() -> None:
    batch = BatchKVCache.merge([filled(5), filled(5)])
    assert batch.make_mask(1) is None
    assert batch.make_mask(3) == "causal"
    padded = BatchKVCache.merge([filled(5), filled(4)])
    assert padded.make_mask(1) is not None
    padded.filter([1])
    assert padded.make_mask(1) is None


def test_rows_end_at_one_slot_and_leave_as_they_came() -> None:
    batch = BatchKVCache.merge([filled(2), ConcatenateKVCache(), filled(4, 10)])
    assert batch.left_padding == [2, 4, 0]
    new = mx.concatenate([of(1, 2), of(1, 50), of(1, 14)])
    keys, values = batch.update_and_fetch(new, -new)
    assert mx.array_equal(keys, -values)
    assert ids(keys) == [[0, 0, 0, 1, 2], [0, 0, 0, 0, 50], [10, 11, 12, 13, 14]]
    for row, (n, start) in enumerate([(3, 0), (1, 50), (5, 10)]):
        single = batch.extract(row)
        assert single.offset == n
        assert single.keys is not None
        assert ids(single.keys) == [list(range(start, start + n))]


def test_rows_that_gave_tokens_back_are_written_apart() -> None:
    batch = BatchKVCache.merge([filled(3), filled(3, 10)])
    assert batch.trim_rows([2, 0]) == [2, 0]
    new = mx.concatenate([of(1, 1), of(1, 13)])
    mask = batch.make_mask(1)
    keys, _ = batch.update_and_fetch(new, -new)
    assert ids(keys) == [[0, 1, 2, 0], [10, 11, 12, 13]]
    assert isinstance(mask, mx.array)
    assert mask[:, 0, 0].tolist() == [[True, True, False, False], [True] * 4]
    keys, *_ = batch.state
    assert keys[0, 0, 2:, 0].tolist() == [0, 1]


def test_a_row_that_joins_changes_nothing_of_the_others() -> None:
    batch, other = BatchKVCache.merge([filled(3)]), BatchKVCache.merge([filled(5, 10)])
    batch.extend(other)
    assert batch.offset.tolist() == [3, 5]
    keys, *_ = batch.state
    assert ids(keys) == [[0, 0, 0, 1, 2], [10, 11, 12, 13, 14]]
    assert other.rows == 1


def test_the_last_row_may_leave() -> None:
    batch = BatchKVCache.merge([filled(3)])
    batch.filter([])
    assert (batch.rows, batch.nbytes, batch.empty()) == (0, 0, True)
    batch.extend(BatchKVCache.merge([filled(2)]))
    assert batch.offset.tolist() == [2]


def test_a_batch_is_quantized_as_a_whole() -> None:
    cache = KVCache()
    x = mx.random.normal((1, 2, 6, 64), key=mx.random.key(0))
    cache.update_and_fetch(x, x)
    batch = BatchKVCache.merge([cache, KVCache()]).to_quantized(group_size=32, bits=8)
    assert isinstance(batch, BatchQuantizedKVCache)
    single = batch.extract(0)
    assert isinstance(single, QuantizedKVCache)
    ours, theirs = single.state[0], cache.to_quantized(group_size=32, bits=8).state[0]
    assert ours is not None
    assert theirs is not None
    assert all(mx.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(CacheNotMergeable, match=r"QuantizedKVCache \(cache 1\) cannot be a row"):
        BatchKVCache.merge([KVCache(), QuantizedKVCache()])
    double = KVCache()
    double.update_and_fetch(mx.zeros((2, 1, 1, 4)), mx.zeros((2, 1, 1, 4)))
    with pytest.raises(CacheNotMergeable, match="already holds 2 sequences"):
        BatchKVCache.merge([double])
    batch = BatchKVCache([0, 0])
    with pytest.raises(ValueError, match="keys of 3 sequences for a batch of 2 rows"):
        batch.update_and_fetch(mx.zeros((3, 1, 1, 4)), mx.zeros((3, 1, 1, 4)))
    with pytest.raises(ValueError, match="one number for each of 2 rows"):
        batch.prepare(left_padding=[1])
    with pytest.raises(IndexError, match="2 rows has no row 2"):
        batch.extract(2)
    with pytest.raises(ValueError, match="left_padding must be 0 or more"):
        BatchKVCache([-1])
    batch.update_and_fetch(mx.zeros((2, 1, 1, 4)), mx.zeros((2, 1, 1, 4)))
    with pytest.raises(ValueError, match="left_padding comes before the first token"):
        batch.prepare(left_padding=[1, 0])
