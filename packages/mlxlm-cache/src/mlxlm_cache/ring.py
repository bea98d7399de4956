"""Where tokens are in a buffer of bounded size.

A position is a token's index in its sequence, a slot its place in the buffer. Slots 0 to
`keep` - 1 hold the first tokens for good; the others are a ring of `span` slots that
writing goes round in. `following` is the slot after the latest token's, `oldest` the
lowest position in the ring.
"""

import mlx.core as mx

from mlxlm_cache.masks import visible
from mlxlm_cache.parts import Stored, between

Numbers = int | mx.array

HIDDEN = 2**30
"""Stands for the position of a slot that holds nothing: later than any query."""


def slot_positions(
    slots: mx.array, offset: Numbers, following: Numbers, oldest: Numbers, keep: int, span: int
) -> mx.array:
    """Return the position in each slot: (n,), or (B, n) where the numbers are (B, 1)."""
    age = (following - 1 - slots) % span
    position = offset - 1 - age
    position = mx.where(position >= oldest, position, HIDDEN)
    if keep == 0:
        return position
    first = mx.where(slots < offset, slots, HIDDEN)
    return mx.where(slots < keep, first, position)


def window_mask(
    queries: mx.array, keys: mx.array, window: int, keep: int, window_size: int | None
) -> mx.array:
    """Compare positions: each query sees the first `keep` and the latest `window`."""
    mask = visible(queries, keys, window)
    if keep:
        mask = mask | ((keys < keep) & (keys <= queries))
    return mask if window_size is None else mask & visible(queries, keys, window_size)


def in_order(
    stored: Stored, following: int, held: int, keep: int, capacity: int, front: int = 0
) -> list[Stored]:
    """Return pieces of the ring with its latest `held` tokens, oldest first.

    `front` slots come before those that are numbered.
    """
    start = following - held
    if held == 0:
        return []
    if start >= keep:
        return [between(stored, front + start, front + following)]
    wrapped = capacity - (keep - start)
    return [
        between(stored, front + wrapped, front + capacity),
        between(stored, front + keep, front + following),
    ]


def write_places(slot: int, length: int, keep: int, capacity: int) -> list[tuple[int, int]]:
    """Return the slots, as ranges, that `length` tokens go to from `slot` on."""
    slot = slot if slot < capacity else keep
    if slot + length <= capacity:
        return [(slot, slot + length)]
    return [(slot, capacity), (keep, keep + length - (capacity - slot))]
