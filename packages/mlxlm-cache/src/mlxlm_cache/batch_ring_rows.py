"""Rotating buffers that rows join and leave, and that files hold."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import mlx.core as mx

from mlxlm_cache.batch import chosen, row_array, together
from mlxlm_cache.batch_kv import stacked
from mlxlm_cache.batch_ring import BatchRing
from mlxlm_cache.parts import (
    Stored,
    allocated,
    as_stored,
    between,
    grown,
    joined,
    length,
    row,
    taken,
)
from mlxlm_cache.ring import in_order
from mlxlm_cache.window import RotatingCache


class BatchRingCache(BatchRing[Stored]):
    """What the batches of rotating caches share."""

    def filter(self, batch_indices: Iterable[int] | mx.array) -> None:
        rows = chosen(batch_indices, self.rows)
        if rows == list(range(self.rows)):
            return
        self.offsets = [self.offsets[i] for i in rows]
        self._following = [self._following[i] for i in rows]
        self._oldest = [self._oldest[i] for i in rows]
        if self._to_come is not None:
            self._to_come = [self._to_come[i] for i in rows]
        if not rows:
            self.keys = self.values = None
            self._used = self._front = 0
        elif self.keys is not None and self.values is not None:
            self.keys, self.values = taken(self.keys, rows), taken(self.values, rows)
            if self.keep + max(self._in_ring) < self._used:
                self._align()

    def extend(self, other: Self) -> None:
        together([self, other], type(self), *self._settings)
        if self._to_come is not None or other._to_come is not None:
            raise ValueError("finalize() comes before extend()")
        if not other.rows:
            return
        slack = max(self.slack, other.slack)
        batches = [b.copy() for b in (self, other) if b.rows]
        for batch in batches:
            batch._align(slack)
        self.slack = slack
        self._join(
            [o for b in batches for o in b.offsets],
            [p for b in batches for p in b._oldest],
            [(b.keys, b.rows, b._used) for b in batches],
            [(b.values, b.rows, b._used) for b in batches],
        )

    def _join(
        self,
        offsets: list[int],
        oldest: list[int],
        keys: Sequence[tuple[Stored | None, int, int]],
        values: Sequence[tuple[Stored | None, int, int]],
    ) -> None:
        """Take rows over, given as (stored, rows, slots in use), with the ring in order."""
        self._front = 0
        self.offsets, self._oldest = offsets, oldest
        wanted = max(self._in_ring)
        self.keys, self.values = self._stack(keys, wanted), self._stack(values, wanted)
        self._used = 0 if self.keys is None else self.keep + wanted
        self._following = [self._used if o >= self.keep else max(0, o) for o in offsets]

    def _stack(
        self, batches: Sequence[tuple[Stored | None, int, int]], wanted: int
    ) -> Stored | None:
        rings = [
            (None if s is None else between(s, self.keep, used), n, max(0, used - self.keep))
            for s, n, used in batches
        ]
        ring = stacked(rings, wanted, capacity=wanted)
        if ring is None or self.keep == 0:
            return ring
        firsts = [
            (None if s is None else grown(s, s, min(used, self.keep), self.keep), n, self.keep)
            for s, n, used in batches
        ]
        first = stacked(firsts, self.keep, capacity=self.keep)
        return ring if first is None else joined([first, ring])

    @classmethod
    def _merged(cls, caches: Sequence[RotatingCache[Stored]], batch: Self) -> Self:
        """Fill a batch of no rows."""
        batch.slack = max(cache.slack for cache in caches)
        singles = [cache.copy() for cache in caches]
        for single in singles:
            single.checkpoint(batch.slack)
        batch._join(
            [s.offset for s in singles],
            [s._at.oldest for s in singles],
            [(s.held(s.keys), 1, s.size()) for s in singles],
            [(s.held(s.values), 1, s.size()) for s in singles],
        )
        return batch

    def _extracted(self, idx: int, cache: RotatingCache[Stored]) -> None:
        """Fill an empty cache with a row."""
        (idx,) = chosen([idx], self.rows)
        offset = self.offsets[idx]
        if self.keys is None or self.values is None or offset <= 0:
            return
        cache.offset = offset
        cache._hold(self._one(self.keys, idx), self._one(self.values, idx))

    def _one(self, stored: Stored, idx: int) -> Stored:
        own = row(stored, idx, self._front, self._front + self._used)
        pieces = [between(own, 0, min(self.keep, self.offsets[idx]))] if self.keep else []
        held = self._in_ring[idx]
        pieces += in_order(own, self._following[idx], held, self.keep, self.capacity)
        return joined(pieces)

    @property
    def state(self) -> Any:
        numbers = (self.offsets, self._following, self._oldest)
        return self._live(self.keys), self._live(self.values), *map(row_array, numbers)

    @state.setter
    def state(self, value: Any) -> None:
        keys, values, offsets, following, oldest = value
        self.keys, self.values = as_stored(keys), as_stored(values)
        self._used, self._front = length(self.keys), 0
        self.offsets = offsets.tolist()
        self._following = following.tolist()
        self._oldest = oldest.tolist()

    def _numbers(self) -> tuple[str, ...]:
        return str(self.max_size), str(self.keep), str(self.slack)

    def _restore(self, state: Any) -> None:
        """Take the arrays of a state. Raises ValueError where they disagree."""
        self.state = state
        rows = zip(self.offsets, self._following, self._oldest, strict=True)
        for i, (offset, following, oldest) in enumerate(rows):
            held = max(0, offset - oldest)
            if (
                not 0 <= following <= self._used <= self.capacity
                or held > min(self._span, self._used)
                or oldest < self.keep
                or (0 < offset < self.keep and following != offset)
            ):
                raise ValueError(
                    f"row {i}: offset {offset}, next slot {following} and lowest position "
                    f"{oldest} do not go with keys of {self._used} tokens"
                )

    def size(self) -> int:
        pairs = zip(self.offsets, self._in_ring, strict=True)
        return max((min(max(0, o), self.keep) + n for o, n in pairs), default=0)

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)
