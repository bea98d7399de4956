import mlx.core as mx
import pytest
from mlxlm_cache.parts import (
    allocated,
    as_stored,
    between,
    blank,
    enlarged,
    gathered,
    grown,
    joined,
    length,
    row,
    scattered,
    split,
    taken,
    write,
)


@pytest.fixture(params=["plain", "packed"])
def stored(request: pytest.FixtureRequest) -> mx.array | tuple[mx.array, mx.array, mx.array]:
    """Two rows of four tokens; each part counts up."""

    def part(size: int, dtype: mx.Dtype) -> mx.array:
        return mx.arange(2 * 4 * size).reshape(2, 1, 4, size).astype(dtype)

    if request.param == "plain":
        return part(8, mx.float32)
    return part(2, mx.uint32), part(1, mx.float16), part(1, mx.float16)


def firsts(stored: object) -> list[list[float]]:
    """Return the first feature of each token, in units of a token."""
    part = stored if isinstance(stored, mx.array) else stored[0]  # type: ignore[index]
    return (part[:, 0, :, 0] / part.shape[-1]).tolist()  # type: ignore[no-any-return]


def test_each_operation_is_on_tokens(stored: mx.array) -> None:
    assert length(stored) == 4
    assert length(None) == 0
    assert firsts(between(stored, 1, 3)) == [[1, 2], [5, 6]]
    assert firsts(joined([between(stored, 3, 4), between(stored, 0, 1)])) == [[3, 0], [7, 4]]
    assert firsts(grown(stored, stored, 2, 5)) == [[0, 1, 0, 0, 0], [4, 5, 0, 0, 0]]
    assert firsts(grown(None, stored, 0, 2)) == [[0, 0], [0, 0]]
    assert firsts(blank(stored, 1)) == [[0], [0]]
    assert firsts(taken(stored, [1, 1])) == [[4, 5, 6, 7]] * 2
    assert firsts(row(stored, 1, 2, 4)) == [[6, 7]]
    assert firsts(gathered(stored, mx.array([[3, 0], [1, 1]]))) == [[3, 0], [5, 5]]
    assert firsts(gathered(stored, mx.array([[2]]))) == [[2], [6]]


def test_writing(stored: mx.array) -> None:
    new = between(stored, 2, 4)
    places = mx.array([[0, 1], [3, 0]])
    assert firsts(scattered(stored, places, new)) == [[2, 3, 2, 3], [7, 5, 6, 6]]
    write(stored, 0, 2, new)
    assert firsts(stored) == [[2, 3, 2, 3], [6, 7, 6, 7]]


def test_bytes_are_those_of_all_parts(stored: mx.array) -> None:
    packed = isinstance(stored, tuple)
    assert allocated(stored, None) == 8 * (2 * 4 + 2 * 2 if packed else 8 * 4)
    assert as_stored([1, 2, 3]) == (1, 2, 3)
    assert as_stored(None) is None


def test_enlarged_buffers_hold_what_was_there_and_what_is_new(stored: mx.array) -> None:
    new = between(stored, 0, 2)
    assert firsts(enlarged(stored, new, 1, 4, 6)) == [[0, 0, 1, 3, 0, 0], [4, 4, 5, 7, 0, 0]]
    assert firsts(enlarged(stored, new, 2, 2, 4)) == [[0, 1, 0, 1], [4, 5, 4, 5]]
    assert firsts(enlarged(None, new, 0, 0, 3)) == [[0, 1, 0], [4, 5, 0]]


def test_an_enlarged_buffer_of_new_tokens_alone_is_no_alias(stored: mx.array) -> None:
    made = enlarged(None, stored, 0, 0, 4)
    write(made, 0, 1, between(stored, 2, 3))
    assert firsts(made) == [[2, 1, 2, 3], [6, 5, 6, 7]]
    assert firsts(stored) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("at", range(6))
def test_pieces_are_split_before_a_token(stored: mx.array, at: int) -> None:
    pieces = [between(stored, 0, 1), between(stored, 1, 4), between(stored, 0, 1)]
    before, after = split(pieces, at)
    assert sum(map(length, before)) == at
    assert firsts(joined([*before, *after])) == firsts(joined(pieces))
