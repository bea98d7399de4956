from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import (
    BatchRotatingKVCache,
    BatchRotatingQuantizedKVCache,
    CacheNotMergeable,
    CacheNotTrimmable,
    RotatingKVCache,
)


def attended(cache: RotatingKVCache | BatchRotatingKVCache, x: mx.array) -> mx.array:
    mask = cache.make_mask(x.shape[2])
    keys, values = cache.update_and_fetch(x, -x)
    return mx.fast.scaled_dot_product_attention(x, keys, values, scale=0.1, mask=mask)


@pytest.mark.parametrize("keep", [0, 3])
@pytest.mark.parametrize("lengths", [(5, 12), (12, 20), (2, 9)])
def test_R11_two_unequal_prompts_merged_past_their_window(
    keep: int, lengths: tuple[int, int], tokens: Callable[..., mx.array]
) -> None:
    singles = [RotatingKVCache(8, keep=keep) for _ in lengths]
    for cache, n in zip(singles, lengths, strict=True):
        attended(cache, tokens(0, n))
    batch = RotatingKVCache.merge(singles)
    assert (batch.keep, batch.max_size) == (keep, 8)
    assert batch.offset.tolist() == list(lengths)
    for step in range(20):
        x = [tokens(n + step, 1) for n in lengths]
        out = attended(batch, mx.concatenate(x))
        for row, cache in enumerate(singles):
            np.testing.assert_allclose(out[row], attended(cache, x[row])[0], atol=1e-5)
    for row, cache in enumerate(singles):
        again = batch.extract(row)
        assert (again.offset, again.keep, again.size()) == (cache.offset, keep, 8)
        x = [tokens(lengths[row] + 20, 5)]
        np.testing.assert_allclose(attended(again, x[0]), attended(cache, x[0]), atol=1e-5)


@pytest.mark.parametrize("keep", [0, 3])
def test_full_windows_need_no_mask(keep: int, tokens: Callable[..., mx.array]) -> None:
    singles = [RotatingKVCache(8, keep=keep) for _ in range(2)]
    for cache, n in zip(singles, (20, 6), strict=True):
        attended(cache, tokens(0, n))
    batch = RotatingKVCache.merge(singles)
    x = mx.zeros((2, 2, 1, 32))
    masks = []
    for _ in range(4):
        masks.append(batch.make_mask(1))
        batch.update_and_fetch(x, x)
    assert masks[0] is not None
    assert masks[2:] == [None, None]


def test_equal_rows_that_fit_are_as_a_single_one() -> None:
    batch = BatchRotatingKVCache(8, [0, 0], keep=2)
    assert batch.make_mask(5) == "causal"
    x = mx.zeros((2, 1, 5, 4))
    batch.update_and_fetch(x, x)
    assert batch.make_mask(1) is None
    assert batch.make_mask(3) == "causal"


def test_memory_is_capped() -> None:
    batch = BatchRotatingKVCache(300, [3, 0], keep=4, slack=10)
    for length in (500, 1, 700, 1):
        x = mx.zeros((2, 1, length, 8))
        batch.update_and_fetch(x, x)
        mx.eval(batch.state)
        assert batch.nbytes == 2 * 2 * 310 * 8 * 4


def test_a_slack_lets_rows_go_back_by_different_numbers(tokens: Callable[..., mx.array]) -> None:
    lengths = (9, 14)
    singles = [RotatingKVCache(6, keep=1) for _ in lengths]
    for cache, n in zip(singles, lengths, strict=True):
        attended(cache, tokens(0, n))
    batch = RotatingKVCache.merge(singles)
    with pytest.raises(CacheNotTrimmable, match="of row 0, so it can take 0 back there, not 1"):
        batch.trim_rows([1, 0])
    batch.checkpoint(3)
    for step in range(3):
        attended(batch, mx.concatenate([tokens(n + step + 50, 1) for n in lengths]))
    assert batch.capabilities.trim == 3
    assert batch.trim_rows([3, 2]) == [3, 2]
    attended(singles[1], tokens(14 + 50, 1))
    x = [tokens(70 + row, 1) for row in range(2)]
    out = attended(batch, mx.concatenate(x))
    for row, cache in enumerate(singles):
        np.testing.assert_allclose(out[row], attended(cache, x[row])[0], atol=1e-5)


def test_R10_a_batch_is_quantized_with_its_sinks() -> None:
    single = RotatingKVCache(8, keep=2)
    x = mx.random.normal((1, 1, 12, 64), key=mx.random.key(0))
    single.update_and_fetch(x, x)
    batch = RotatingKVCache.merge([single, single]).to_quantized(group_size=64, bits=8)
    assert isinstance(batch, BatchRotatingQuantizedKVCache)
    assert (batch.keep, batch.size(), batch.offset.tolist()) == (2, 8, [12, 12])
    again = batch.extract(1)
    assert (again.keep, again.bits, again.offset) == (2, 8, 12)


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(CacheNotMergeable, match="has keep=4, and the first cache 0"):
        RotatingKVCache.merge([RotatingKVCache(8), RotatingKVCache(8, keep=4)])
    with pytest.raises(ValueError, match="right_padding in a window needs the lengths"):
        BatchRotatingKVCache(8, [0, 0]).prepare(right_padding=[0, 1])
    with pytest.raises(ValueError, match="keys of 3 sequences for a batch of 2 rows"):
        BatchRotatingKVCache(8, [0, 0]).update_and_fetch(
            mx.zeros((3, 1, 1, 4)), mx.zeros((3, 1, 1, 4))
        )


def test_a_state_and_numbers_that_disagree_are_an_error() -> None:
    batch = BatchRotatingKVCache(8, [0, 0], keep=1)
    x = mx.zeros((2, 1, 5, 4))
    batch.update_and_fetch(x, x)
    keys, values, offsets, following, oldest = batch.state
    with pytest.raises(ValueError, match="row 0: offset 105"):
        BatchRotatingKVCache.from_state(
            (keys, values, offsets + 100, following, oldest), batch.meta_state
        )
