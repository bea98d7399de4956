import mlx.core as mx
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache.ring import HIDDEN, in_order, slot_positions, window_mask, write_places

Sizes = st.integers(1, 8).flatmap(lambda c: st.tuples(st.just(c), st.integers(0, c - 1)))


@settings(max_examples=60, deadline=None)
@given(sizes=Sizes, lengths=st.lists(st.integers(1, 4), max_size=10))
def test_positions_are_those_of_a_simulation(sizes: tuple[int, int], lengths: list[int]) -> None:
    capacity, keep = sizes
    span = capacity - keep
    slots: list[int | None] = [None] * capacity
    offset = following = 0
    for length in lengths:
        if length > span:
            continue
        for start, end in write_places(following, length, keep, capacity):
            for slot in range(start, end):
                slots[slot] = offset
                offset += 1
            following = end
    oldest = max(keep, offset - span)
    positions = slot_positions(mx.arange(capacity), offset, following, oldest, keep, span)
    assert positions.tolist() == [HIDDEN if p is None else p for p in slots]
    held = offset - oldest
    if held > 0:
        stored = mx.array([-1 if p is None else p for p in slots]).reshape(1, 1, -1, 1)
        pieces = in_order(stored, following, held, keep, capacity)
        listed = mx.concatenate(pieces, axis=2).reshape(-1).tolist()
        assert listed == list(range(oldest, offset))


def test_the_window_and_the_first_tokens_are_seen() -> None:
    mask = window_mask(mx.array([[5], [6]]), mx.array([0, 1, 4, 5, 6, HIDDEN]), 2, 1, None)
    assert mask.tolist() == [
        [True, False, True, True, False, False],
        [True, False, False, True, True, False],
    ]
    mask = window_mask(mx.array([[6]]), mx.array([0, 5, 6]), 2, 1, 1)
    assert mask.tolist() == [[False, False, True]]
