"""Rotating buffers of several sequences: where their tokens go, and what each sees."""

from collections.abc import Iterable, Sequence
from typing import Any, Generic

import mlx.core as mx

from mlxlm_cache.batch import Batch, column, equal, per_row
from mlxlm_cache.blocks import rounded_up
from mlxlm_cache.masks import Mask, attention_mask, check_window
from mlxlm_cache.parts import (
    Stored,
    between,
    blank,
    each,
    gathered,
    grown,
    joined,
    length,
    placed,
    scattered,
    write,
)
from mlxlm_cache.ring import HIDDEN, in_order, slot_positions, window_mask, write_places
from mlxlm_cache.window import check_bounds


class BatchRing(Batch, Generic[Stored]):
    """Each row is what a rotating cache is: see `RotatingCache` for the window and the slack.

    Rows share the slot that is written next, unless one gave tokens back or has fewer
    than `keep`. Once all windows are full, a single token needs no mask.
    """

    _settings: tuple[str, ...] = ("max_size", "keep")

    def __init__(
        self, max_size: int, left_padding: Iterable[int], keep: int = 0, slack: int = 0
    ) -> None:
        check_bounds(max_size, keep, slack)
        self.max_size = max_size
        self.keep = keep
        self.slack = slack
        padding = [int(p) for p in left_padding]
        if any(p < 0 for p in padding):
            raise ValueError(f"left_padding must be 0 or more, not {padding}")
        self.offsets = [-p for p in padding]
        self.keys: Stored | None = None
        self.values: Stored | None = None
        self._used = 0  # slots
        self._front = 0  # slots before all these, of tokens dropped
        self._following = [0] * self.rows  # per row, the slot after its latest token
        self._oldest = [keep] * self.rows  # per row, the lowest position in its ring
        self._to_come: list[int] | None = None  # per row, tokens before its right padding

    def pack(self, array: mx.array) -> Stored:
        """Return what is stored of keys or values."""
        raise NotImplementedError

    @property
    def capacity(self) -> int:
        return self.max_size + self.slack

    @property
    def _span(self) -> int:
        return self.capacity - self.keep

    @property
    def _in_ring(self) -> list[int]:
        """Per row, how many tokens are held beside the first `keep`."""
        return [max(0, o - p) for o, p in zip(self.offsets, self._oldest, strict=True)]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Stored, Stored]:
        batch, _, count, _ = keys.shape
        if batch != self.rows:
            raise ValueError(f"keys of {batch} sequences for a batch of {self.rows} rows")
        if self._fits(count):
            if count == 1 and self._full and equal(self._following):
                return self._overwrite(self.pack(keys), self.pack(values))
            self._settle()
            return self._write(self.pack(keys), self.pack(values), count)
        return self._roll(self.pack(keys), self.pack(values), count)

    def _fits(self, count: int) -> bool:
        """Tell whether tokens can be written in place, over none that they may see."""
        if self._to_come is not None or min(self.offsets) < 0:
            return False
        return count <= self.slack + 1 or max(self._in_ring) + count <= self._span

    @property
    def _full(self) -> bool:
        return self._used == self.capacity == length(self.keys)

    def _overwrite(self, keys: Stored, values: Stored) -> tuple[Stored, Stored]:
        """Do what `_write` does in a long decode, a single token in full rings, in less time."""
        following, span = self._following[0], self._span
        slot = following if following < self.capacity else self.keep
        all_keys: Any = self.keys
        all_values: Any = self.values
        write(all_keys, slot, slot + 1, keys)
        write(all_values, slot, slot + 1, values)
        self.offsets = [o + 1 for o in self.offsets]
        self._following = [slot + 1] * len(self.offsets)
        self._oldest = [max(p, o - span) for p, o in zip(self._oldest, self.offsets, strict=True)]
        return all_keys, all_values

    def _slots(self) -> list[int]:
        return [f if f < self.capacity else self.keep for f in self._following]

    def _after(self, count: int) -> tuple[int, list[int], list[int]]:
        """Return slots in use, following slots and oldest positions after a write in place."""
        if equal(self._following):
            places = write_places(self._following[0], count, self.keep, self.capacity)
            used = self.capacity if len(places) > 1 else max(self._used, places[0][1])
            following = [places[-1][1]] * self.rows
        else:
            ends = [s + count for s in self._slots()]
            used = min(self.capacity, max(self._used, *ends))
            following = [e if e <= self.capacity else e - self._span for e in ends]
        surplus = count - self._span
        oldest = [max(p, o + surplus) for p, o in zip(self._oldest, self.offsets, strict=True)]
        return used, following, oldest

    def _write(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        used, following, oldest = self._after(count)
        if equal(self._following):
            all_keys, all_values = self._put(keys, values, count)
        else:
            all_keys, all_values = self._room(keys, values, used)
            places = column(self._slots()) + mx.arange(count)
            places = mx.where(places < self.capacity, places, places - self._span)
            self.keys = all_keys = scattered(all_keys, places, keys)
            self.values = all_values = scattered(all_values, places, values)
        self.offsets = [o + count for o in self.offsets]
        self._used, self._following, self._oldest = used, following, oldest
        if used == length(all_keys):
            return all_keys, all_values
        return between(all_keys, 0, used), between(all_values, 0, used)

    def _put(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        """Write to the same slots of every row, and return the buffers."""
        places = write_places(self._following[0], count, self.keep, self.capacity)
        used, start = self._used, 0
        for first, last in places:
            end = start + last - first
            part = (keys, values)
            if len(places) > 1:
                part = between(keys, start, end), between(values, start, end)
            self.keys = all_keys = placed(self.keys, part[0], first, used, self.capacity)
            self.values = all_values = placed(self.values, part[1], first, used, self.capacity)
            used, start = max(used, last), end
        return all_keys, all_values

    def _room(self, keys: Stored, values: Stored, end: int) -> tuple[Stored, Stored]:
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > length(all_keys):
            capacity = min(rounded_up(end), self.capacity)
            self.keys = all_keys = grown(all_keys, keys, self._used, capacity)
            self.values = all_values = grown(all_values, values, self._used, capacity)
        return all_keys, all_values

    def _roll(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        """Return all that a long chunk may see, and keep what later tokens may see."""
        fetched = (
            joined([*self._ordered(self._live(self.keys), keys), keys]),
            joined([*self._ordered(self._live(self.values), values), values]),
        )
        come = [count] * self.rows
        if self._to_come is not None:
            come = [min(count, n) for n in self._to_come]
            self._to_come = [n - c for n, c in zip(self._to_come, come, strict=True)]
        self._hold(*fetched, come)
        return fetched

    def _live(self, stored: Stored | None) -> Stored | None:
        """Return the slots in use."""
        if stored is None:
            return None
        return between(stored, self._front, self._front + self._used)

    def _settle(self) -> None:
        """Free what is before the slots in use."""
        if self._front and self.keys is not None and self.values is not None:
            end = self._front + self._used
            self.keys = each(mx.contiguous, between(self.keys, self._front, end))
            self.values = each(mx.contiguous, between(self.values, self._front, end))
        self._front = 0

    def _ordered(self, stored: Stored | None, like: Stored) -> list[Stored]:
        """Return pieces with the first `keep` slots, then each ring, oldest first, to the right."""
        held = max(self._in_ring)
        if stored is None:
            return [blank(like, self.keep)] if self.keep else []
        if self._used < self.keep:
            stored = grown(stored, stored, self._used, self.keep)
        if held == 0:
            return [between(stored, 0, self.keep)]
        pieces = [between(stored, 0, self.keep)] if self.keep else []
        if equal(self._following):
            return pieces + in_order(stored, self._following[0], held, self.keep, self.capacity)
        slots = column([f - held - self.keep for f in self._following]) + mx.arange(held)
        slots = mx.minimum(slots % self._span + self.keep, self._used - 1)
        return [*pieces, gathered(stored, slots)]

    def _hold(self, keys: Stored, values: Stored, come: Sequence[int]) -> None:
        """Keep of all in order what later tokens may see; `come` are each row's new tokens."""
        before = self.offsets
        held = max(self._in_ring)
        self.offsets = [o + c for o, c in zip(before, come, strict=True)]
        self._oldest = [
            max(p, o - self._span) for p, o in zip(self._oldest, self.offsets, strict=True)
        ]
        wanted = max(self._in_ring)
        ends = [self.keep + held + c for c in come]
        front = ends[0] - wanted
        if held and self.keep == 0 and equal(ends) and front <= self.capacity:
            # Copying would cost as much as the chunk: it waits until a token comes.
            self.keys, self.values, self._front = keys, values, front
        else:
            self.keys = self._cut(keys, before, held, ends, wanted)
            self.values = self._cut(values, before, held, ends, wanted)
            self._front = 0
        self._used = self.keep + wanted
        self._following = [self._used if o >= self.keep else max(0, o) for o in self.offsets]

    def _cut(
        self, ordered: Stored, before: Sequence[int], held: int, ends: Sequence[int], wanted: int
    ) -> Stored:
        if equal(ends):
            ring = between(ordered, ends[0] - wanted, ends[0])
        else:
            slots = column([e - wanted for e in ends]) + mx.arange(wanted)
            ring = gathered(ordered, mx.maximum(slots, 0))
        if self.keep == 0:
            return each(mx.contiguous, ring)
        first = between(ordered, 0, self.keep)
        if min(before) < self.keep:
            positions = mx.arange(self.keep)
            starts = column(before)
            fresh = self.keep + held + positions - starts
            slots = mx.where(positions < starts, positions, fresh)
            first = gathered(ordered, mx.clip(slots, 0, length(ordered) - 1))
        return joined([first, ring])

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        """Return the mask for the next `length` tokens, (B, 1, L, keys) where rows differ."""
        check_window(window_size)
        fits = self._fits(length)
        end = self.offsets[0] + length
        if fits and end <= self.max_size and self._in_step():
            return attention_mask(length, self.offsets[0], window_size, return_array)
        used, following, oldest = self._after(length)
        after = [o + length for o in self.offsets]
        if fits and length == 1 and self._all_seen(used, after, oldest, window_size):
            return None
        queries = (column(self.offsets) + mx.arange(length))[..., None]
        if not fits:
            mask = self._rolling_mask(queries, length, window_size)
        else:
            keys = slot_positions(
                mx.arange(used),
                column(after),
                column(following),
                column(oldest),
                self.keep,
                self._span,
            )
            window = self.max_size - self.keep
            mask = window_mask(queries, keys[:, None], window, self.keep, window_size)
        return mask[:, None]

    def _in_step(self) -> bool:
        """Tell whether all rows are alike, with each token in the slot of its position."""
        return all(o == f == self._used for o, f in zip(self.offsets, self._following, strict=True))

    def _all_seen(
        self, used: int, offsets: list[int], oldest: list[int], window_size: int | None
    ) -> bool:
        """Tell whether every slot in use holds a token that the latest may see."""
        if used > self.max_size:
            return False
        for o, p in zip(offsets, oldest, strict=True):
            if min(o, self.keep) + max(0, o - p) != used:
                return False
            if window_size is not None and o - (0 if self.keep else p) > window_size:
                return False
        return True

    def _rolling_mask(self, queries: mx.array, count: int, window_size: int | None) -> mx.array:
        """Return (B or 1, L, keys) for what `_roll` returns."""
        held = max(self._in_ring)
        offsets, oldest = column(self.offsets), column(self._oldest)
        ring = offsets - held + mx.arange(held)
        pieces = [mx.where(ring >= oldest, ring, HIDDEN), offsets + mx.arange(count)]
        if self.keep:
            first = mx.arange(self.keep)
            pieces.insert(0, mx.where(first < offsets, first, HIDDEN))
        rows = max(piece.shape[0] for piece in pieces)
        pieces = [mx.broadcast_to(piece, (rows, piece.shape[1])) for piece in pieces]
        keys = mx.concatenate(pieces, axis=1)[:, None]
        mask = window_mask(queries, keys, self.max_size - self.keep, self.keep, window_size)
        # A padding query sees itself: a row of the softmax over nothing would not be a number.
        return (mask & (keys >= 0)) | (keys == queries)

    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        if left_padding is not None:
            more = per_row(left_padding, self.rows, "left_padding")
            if any(more) and self.keys is not None:
                raise ValueError("left_padding comes before the first token, and there are some")
            self.offsets = [o - m for o, m in zip(self.offsets, more, strict=True)]
        if right_padding is not None and any(per_row(right_padding, self.rows, "right_padding")):
            if lengths is None:
                raise ValueError("right_padding in a window needs the lengths before it")
            self._to_come = per_row(lengths, self.rows, "lengths")

    def finalize(self) -> None:
        self._to_come = None

    def row_limits(self) -> list[int]:
        window = self.max_size - self.keep
        return [
            max(0, o) if p <= self.keep else max(0, o - window - p)
            for o, p in zip(self.offsets, self._oldest, strict=True)
        ]

    def _take_back(self, counts: Sequence[int]) -> None:
        self.offsets = [o - n for o, n in zip(self.offsets, counts, strict=True)]
        self._following = [
            f if n == 0 else (f - n - self.keep) % self._span + self.keep if o >= self.keep else o
            for o, f, n in zip(self.offsets, self._following, counts, strict=True)
        ]
        if equal(self.offsets) and self.offsets == self._following:
            self._used = self.offsets[0]

    @property
    def checkpointed(self) -> int:
        return self.slack

    def checkpoint(self, tokens: int = 8) -> None:
        """From now on, hold what is needed to take up to `tokens` tokens back at any time."""
        check_bounds(self.max_size, self.keep, tokens)
        if tokens != self.slack:
            self._align(tokens)

    def _align(self, slack: int | None = None) -> None:
        """Lay out the tokens held, oldest first, so that all rows end at one slot."""
        self._settle()
        pieces = None
        if self.keys is not None and self.values is not None and self.rows:
            pieces = (
                joined(self._ordered(self.keys, self.keys)),
                joined(self._ordered(self.values, self.values)),
            )
        self.slack = self.slack if slack is None else slack
        if pieces:
            self._hold(*pieces, [0] * self.rows)
