"""Operations on what is stored of keys or values: one array, or the triple of packed ones.

Every part is (B, n_kv, tokens, …), so that one function serves both.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeVar

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.blocks import rounded_up

Stored = TypeVar("Stored", bound=mx.array | Packed)


def each(function: Callable[..., mx.array], stored: Stored, *others: Stored) -> Stored:
    """Apply `function` to each part."""
    made: Any
    if isinstance(stored, mx.array):
        made = function(stored, *others)
    else:
        made = tuple(function(*parts) for parts in zip(stored, *others, strict=True))
    return made  # type: ignore[no-any-return]


def as_stored(value: Any) -> Any:
    """Return a triple, which a file gives as a list, as the tuple that it was."""
    return tuple(value) if isinstance(value, list) else value


def a_part(stored: mx.array | Packed) -> mx.array:
    return stored if isinstance(stored, mx.array) else stored[0]


def length(stored: mx.array | Packed | None) -> int:
    """Return how many tokens there is room for."""
    return 0 if stored is None else a_part(stored).shape[2]


def between(stored: Stored, start: int, end: int) -> Stored:
    if isinstance(stored, mx.array):
        made: Any = stored[:, :, start:end]
        return made  # type: ignore[no-any-return]
    return each(lambda part: part[:, :, start:end], stored)


def write(stored: Stored, start: int, end: int, new: Stored) -> None:
    """Write in place, in the same slots of every row."""
    if isinstance(stored, mx.array):
        stored[:, :, start:end] = new  # type: ignore[assignment]
    else:
        for part, piece in zip(stored, new, strict=True):
            part[:, :, start:end] = piece


def scattered(stored: Stored, slots: mx.array, new: Stored) -> Stored:
    """Return `stored` with `new` in row i's `slots`[i], of shape (B, L)."""
    index = slots[:, None, :, None]
    return each(
        lambda part, piece: mx.put_along_axis(
            part, mx.broadcast_to(index, piece.shape), piece, axis=2
        ),
        stored,
        new,
    )


def gathered(stored: Stored, slots: mx.array) -> Stored:
    """Return the tokens in row i's `slots`[i], of shape (B, L)."""
    index = slots[:, None, :, None]
    return each(
        lambda part: mx.take_along_axis(
            part, mx.broadcast_to(index, (*part.shape[:2], slots.shape[1], part.shape[3])), axis=2
        ),
        stored,
    )


def joined(pieces: Sequence[Stored], axis: int = 2) -> Stored:
    if len(pieces) == 1:
        return pieces[0]
    return each(lambda *parts: mx.concatenate(list(parts), axis=axis), *pieces)


def blank(like: Stored, tokens: int) -> Stored:
    """Return zeros of `tokens` tokens, in the other sizes and the dtype of `like`."""
    return each(lambda part: mx.zeros((*part.shape[:2], tokens, *part.shape[3:]), part.dtype), like)


def grown(stored: Stored | None, like: Stored, used: int, capacity: int) -> Stored:
    """Return a buffer of `capacity` tokens that starts with `used` ones of `stored`."""
    spare = blank(like, capacity - used)
    if stored is None or used == 0:
        return spare
    return joined([between(stored, 0, used), spare])


def enlarged(stored: Stored | None, new: Stored, start: int, used: int, capacity: int) -> Stored:
    """Return larger buffers with what is `stored`, and with `new` in the slots from `start` on."""
    end = start + length(new)
    pieces = [new]
    if stored is not None and start:
        pieces.insert(0, between(stored, 0, min(start, used)))
    if stored is not None and end < used:
        pieces.append(between(stored, end, used))
    if capacity > max(end, used):
        pieces.append(blank(new, capacity - max(end, used)))
    # Of one piece, arrays of their own, that writing to leaves `new` as it is.
    return joined(pieces) if len(pieces) > 1 else each(copy, new)


def placed(
    stored: Stored | None, new: Stored, start: int, used: int, most: int | None = None
) -> Stored:
    """Write `new` to the slots from `start` on, of these buffers or of larger ones.

    `used` slots hold something now; buffers grow by blocks up to `most` slots.
    """
    end = start + length(new)
    if stored is not None and end <= length(stored):
        write(stored, start, end, new)
        return stored
    capacity = rounded_up(max(end, used))
    return enlarged(stored, new, start, used, capacity if most is None else min(capacity, most))


def split(pieces: Sequence[Stored], at: int) -> tuple[list[Stored], list[Stored]]:
    """Part pieces that follow one another, before the token `at`."""
    before: list[Stored] = []
    after: list[Stored] = []
    for piece in pieces:
        count = length(piece)
        if at > 0:
            before.append(between(piece, 0, min(at, count)))
        if at < count:
            after.append(between(piece, max(at, 0), count))
        at -= count
    return before, after


def taken(stored: Stored, rows: Sequence[int]) -> Stored:
    index = mx.array(list(rows))
    return each(lambda part: mx.take(part, index, axis=0), stored)


def row(stored: Stored, index: int, start: int, end: int) -> Stored:
    """Copy a part of one row, so that the rest can be freed."""
    return each(lambda part: mx.contiguous(part[index : index + 1, :, start:end]), stored)


def allocated(*buffers: mx.array | Packed | None) -> int:
    """Return the bytes of the buffers there are."""
    parts = (b if isinstance(b, tuple) else (b,) for b in buffers if b is not None)
    return sum(array.nbytes for part in parts for array in part)
