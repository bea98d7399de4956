import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import BatchChunkedKVCache, CacheNotMergeable, ChunkedKVCache, blocks


def attended(cache: ChunkedKVCache | BatchChunkedKVCache, x: mx.array) -> mx.array:
    mask = cache.make_mask(x.shape[2])
    keys, values = cache.update_and_fetch(x, -x)
    return mx.fast.scaled_dot_product_attention(x, keys, values, scale=0.1, mask=mask)


def test_a_batch_attends_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4)
    singles = [ChunkedKVCache(6) for _ in range(3)]
    for i, (single, n) in enumerate(zip(singles, (2, 15, 7), strict=True)):
        attended(single, mx.random.normal((1, 2, n, 32), key=mx.random.key(i)))
    batch = ChunkedKVCache.merge(singles)
    for step in range(25):
        x = mx.random.normal((3, 2, 1 + step % 3, 32), key=mx.random.key(100 + step))
        out = attended(batch, x)
        for i, single in enumerate(singles):
            np.testing.assert_allclose(out[i], attended(single, x[i : i + 1])[0], atol=1e-5)
    assert batch.size() <= 16
    assert batch.offset.tolist() == [single.offset for single in singles]


def test_rows_in_step_need_no_mask() -> None:
    batch = ChunkedKVCache.merge([ChunkedKVCache(4), ChunkedKVCache(4)])
    for _ in range(10):
        assert batch.make_mask(1) is None
        batch.update_and_fetch(mx.zeros((2, 1, 1, 4)), mx.zeros((2, 1, 1, 4)))


def test_other_chunks_are_another_batch() -> None:
    with pytest.raises(CacheNotMergeable, match="has chunk_size=8, and the first cache 4"):
        ChunkedKVCache.merge([ChunkedKVCache(4), ChunkedKVCache(8)])


def test_a_row_taken_back_to_the_start_of_a_chunk_knows_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4)
    single = ChunkedKVCache(4)
    x = mx.zeros((1, 1, 12, 4))
    single.update_and_fetch(x, x)
    single.maybe_trim_front()
    batch = ChunkedKVCache.merge([single])
    assert batch.trim(4) == 4
    again = batch.extract(0)
    assert (again.offset, again.size()) == (8, 0)
    again = ChunkedKVCache.from_state(again.state, again.meta_state)
    assert (again.offset, again.start_position) == (8, 8)
    again = ChunkedKVCache.merge([again, single]).extract(0)
    keys, _ = again.update_and_fetch(x[:, :, :1], x[:, :, :1])
    assert (again.offset, keys.shape[2]) == (9, 1)
