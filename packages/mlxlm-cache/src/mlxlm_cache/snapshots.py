"""What recurrent state was some tokens ago."""

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx

from mlxlm_cache.base import number_of_tokens

Slots = list[mx.array | None]


class Snapshot(NamedTuple):
    """What the slots held after so many tokens of each row; `step` counts updates' tokens."""

    step: int
    offsets: list[int]
    slots: Slots


class Snapshots:
    """The latest states, up to `limit` tokens back. The last one is the present."""

    def __init__(self) -> None:
        self.limit = 0
        self.step = 0
        self.kept: deque[Snapshot] = deque()

    def copy(self) -> "Snapshots":
        made = Snapshots()
        made.limit, made.step, made.kept = self.limit, self.step, self.kept.copy()
        return made

    def keep(self, tokens: int, offsets: Sequence[int], slots: Slots) -> None:
        """Set the limit; with the first, the present is recorded."""
        self.limit = number_of_tokens(tokens)
        if self.limit == 0:
            self.kept.clear()
        elif not self.kept:
            self.record(0, offsets, slots)

    def record(self, tokens: int, offsets: Sequence[int], slots: Slots) -> None:
        """Remember the state after `tokens` more, and forget what is too far back."""
        self.step += tokens
        # Arrays are copied as objects: writing to one in place leaves the copy as it was.
        self.kept.append(Snapshot(self.step, list(offsets), list(map(copy.copy, slots))))
        while self.step - self.kept[0].step > self.limit:
            self.kept.popleft()

    def restart(self, offsets: Sequence[int], slots: Slots) -> None:
        """Forget all but the present."""
        self.kept.clear()
        if self.limit:
            self.record(0, offsets, slots)

    def find(self, row: int, offset: int) -> int | None:
        """Return the number of the latest snapshot of a row at an offset."""
        numbers = range(len(self.kept) - 1, -1, -1)
        return next((i for i in numbers if self.kept[i].offsets[row] == offset), None)

    def points(self, row: int, offset: int) -> set[int]:
        """Return how many tokens can be taken back from a row that is at `offset`."""
        seen = [snapshot.offsets[row] for snapshot in self.kept]
        return {0, *(max(0, offset) - s for s in seen if s >= 0)}

    def drop_from(self, number: int) -> None:
        """Forget a snapshot and those after it: the present is at its step again."""
        while len(self.kept) > number:
            self.step = self.kept.pop().step

    def select(self, rows: Sequence[int], some: Callable[[Slots], Slots]) -> None:
        """Keep rows of each snapshot, where `some` takes them from slots."""
        self.kept = deque(
            Snapshot(s.step, [s.offsets[i] for i in rows], some(s.slots)) for s in self.kept if rows
        )

    def older(self) -> list[mx.array | None]:
        """Return the arrays that only snapshots hold."""
        return [slot for snapshot in list(self.kept)[:-1] for slot in snapshot.slots]
