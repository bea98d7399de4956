import mlx.core as mx
import pytest
from mlxlm_cache.snapshots import Snapshots


def recorded(limit: int, steps: list[int]) -> Snapshots:
    snapshots = Snapshots()
    snapshots.keep(limit, [0, -1], [None])
    offset = 0
    for tokens in steps:
        offset += tokens
        snapshots.record(tokens, [offset, offset - 1], [mx.array([offset])])
    return snapshots


def test_only_what_is_near_is_kept() -> None:
    snapshots = recorded(3, [1] * 10)
    assert [s.step for s in snapshots.kept] == [7, 8, 9, 10]
    assert snapshots.points(0, 10) == {0, 1, 2, 3}
    assert len(snapshots.older()) == 3
    snapshots = recorded(3, [1, 5, 2])
    assert snapshots.points(0, 8) == {0, 2}


def test_rows_are_found_by_their_own_offsets() -> None:
    snapshots = recorded(3, [1] * 5)
    number = snapshots.find(1, 3)
    assert number is not None
    assert snapshots.kept[number].offsets == [4, 3]
    assert snapshots.find(0, 1) is None


def test_after_going_back_it_goes_on_from_there() -> None:
    snapshots = recorded(3, [1] * 5)
    number = snapshots.find(0, 3)
    assert number is not None
    snapshots.drop_from(number)
    assert snapshots.step == 3
    snapshots.record(0, [3, 2], [None])
    assert snapshots.points(0, 3) == {0, 1}


def test_a_copy_goes_its_own_way() -> None:
    snapshots = recorded(3, [1])
    copied = snapshots.copy()
    copied.record(1, [2, 1], [None])
    assert (len(snapshots.kept), len(copied.kept)) == (2, 3)


def test_a_limit_below_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        Snapshots().keep(-1, [0], [None])
