import mlx.core as mx
import pytest
from mlxlm_cache import BatchKVCache, BatchRotatingKVCache, CacheNotTrimmable
from mlxlm_cache.batch import Batch, chosen, column, per_row, row_array


@pytest.fixture(params=["whole", "window"])
def batch(request: pytest.FixtureRequest) -> Batch:
    made = BatchKVCache([2, 0]) if request.param == "whole" else BatchRotatingKVCache(6, [2, 0])
    x = mx.zeros((2, 1, 5, 4))
    made.update_and_fetch(x, x)
    return made


def test_offsets_are_per_row_and_tokens_seen_a_number(batch: Batch) -> None:
    assert batch.offset.tolist() == [3, 5]
    assert batch.offset.dtype == mx.int32
    assert batch.tokens_seen == 5
    assert not batch.empty()
    assert batch.is_trimmable()


def test_trim_takes_what_there_is(batch: Batch) -> None:
    assert batch.trim(4) == 4
    assert batch.offset.tolist() == [0, 1]
    assert batch.trim(100) == 1
    assert batch.empty()
    with pytest.raises(ValueError, match="cannot trim -1"):
        batch.trim(-1)


def test_what_cannot_be_taken_back_changes_nothing() -> None:
    batch = BatchRotatingKVCache(4, [2, 0])
    x = mx.zeros((2, 1, 5, 4))
    batch.update_and_fetch(x, x)
    assert batch.row_limits() == [3, 0]
    assert batch.capabilities.trim == 0
    assert not batch.is_trimmable()
    with pytest.raises(CacheNotTrimmable, match="dropped tokens of row 1"):
        batch.trim(1)
    assert batch.offset.tolist() == [3, 5]
    assert batch.trim_rows([2, 0]) == [2, 0]


def test_layers_share_the_arrays_of_offsets() -> None:
    assert row_array([3, 5]) is row_array([3, 5])
    assert column([4, 4]).tolist() == [[4]]
    assert column([4, 5]).tolist() == [[4], [5]]


def test_rows_are_checked() -> None:
    assert per_row(mx.array([1, 2]), 2, "counts") == [1, 2]
    with pytest.raises(ValueError, match="counts must have one number for each of 2 rows"):
        per_row([1], 2, "counts")
    with pytest.raises(IndexError, match="a batch of 2 rows has no row -1"):
        chosen([0, -1], 2)
