"""State that is not keys and values: of a recurrence, a convolution, a linear attention."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.batch import chosen, equal, indices, per_row, row_array, together
from mlxlm_cache.errors import CacheNotTrimmable
from mlxlm_cache.masks import Mask
from mlxlm_cache.parts import allocated
from mlxlm_cache.registry import register_cache
from mlxlm_cache.snapshots import Slots, Snapshots


@register_cache("ArraysCache")
class ArraysCache(Cache):
    """`size` arrays, each with a row for each sequence, that a layer reads and replaces.

    The layer writes `cache[i] = array` and then calls `advance` with the number of tokens
    that it went through. Between `checkpoint` and a rollback, every such call is a point
    to go back to: a layer that can give the state after each token calls `advance(1)` for
    each when `recording`. One cache serves a sequence as well as a batch.
    """

    def __init__(self, size: int, left_padding: Iterable[int] | None = None) -> None:
        self.slots: Slots = [None] * size
        # Per row; below zero, how many padding tokens are still to come.
        self.offsets = [-int(p) for p in left_padding] if left_padding is not None else [0]
        self._to_come: list[int] | None = None  # per row, tokens before its right padding
        self._snapshots = Snapshots()

    def __getitem__(self, index: int) -> mx.array | None:
        return self.slots[index]

    def __setitem__(self, index: int, value: mx.array | None) -> None:
        self.slots[index] = value

    @property
    def rows(self) -> int:
        rows = next((slot.shape[0] for slot in self.slots if slot is not None), len(self.offsets))
        if len(self.offsets) != rows:
            self.offsets = self.offsets[:1] * rows
        return rows

    @property
    def offset(self) -> int:  # type: ignore[override]
        """The tokens seen so far by the row that has seen most."""
        return max(0, *self.offsets) if self.offsets else 0

    @property
    def left_padding(self) -> mx.array | None:
        """Per row, how many of the next tokens are padding; None where none are."""
        if self.offsets and min(self.offsets) < 0:
            return row_array([max(0, -o) for o in self.offsets])
        return None

    @property
    def lengths(self) -> mx.array | None:
        """Per row, how many of the next tokens are not right padding; None without any."""
        return None if self._to_come is None else row_array(self._to_come)

    def advance(self, tokens: int) -> None:
        """Count tokens that the slots now hold the outcome of."""
        self.rows  # noqa: B018 - spreads the offset over the rows of a batch
        if self._to_come is None:
            self.offsets = [o + tokens for o in self.offsets]
        else:
            come = [min(tokens, n) for n in self._to_come]
            self.offsets = [o + c for o, c in zip(self.offsets, come, strict=True)]
            self._to_come = [n - c for n, c in zip(self._to_come, come, strict=True)]
        if self.recording:
            self._snapshots.record(tokens, self.offsets, self.slots)

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        """Return which of the next `length` tokens are none of the padding: (B, L), or None."""
        columns = mx.arange(length)
        mask = None
        left, lengths = self.left_padding, self.lengths
        if left is not None:
            mask = columns >= left[:, None]
        if lengths is not None and self._to_come and min(self._to_come) < length:
            right = columns < lengths[:, None]
            mask = right if mask is None else mask & right
        return mask

    def empty(self) -> bool:
        return all(slot is None for slot in self.slots)

    def size(self) -> int:
        """Return 0: the state is of fixed size, and holds no token as such."""
        return 0

    def copy(self) -> Self:
        made = super().copy()
        made._snapshots = self._snapshots.copy()
        return made

    @property
    def nbytes(self) -> int:
        return allocated(*self.slots, *self._snapshots.older())

    # Going back.

    @property
    def recording(self) -> bool:
        return self._snapshots.limit > 0

    @property
    def checkpointed(self) -> int:
        return self._snapshots.limit

    def checkpoint(self, tokens: int = 8) -> None:
        """From now on, remember states so that up to `tokens` tokens can be taken back.

        Memory is bounded by as many states. 0 ends it.
        """
        self._snapshots.keep(tokens, self.offsets, self.slots)

    def row_points(self, row: int) -> set[int]:
        """Return the numbers of tokens that can be taken back from a row now."""
        return self._snapshots.points(row, self.offsets[row])

    @property
    def trimmable_tokens(self) -> int:
        """The most that can be taken back with every smaller number possible too."""
        points = set.intersection(*map(self.row_points, range(self.rows))) if self.rows else {0}
        return next(n for n in range(len(points) + 1) if n + 1 not in points)

    def is_trimmable(self) -> bool:
        return self.recording and self.trimmable_tokens == self.offset

    def can_trim(self, n: int) -> bool:
        return all(min(n, max(0, self.offsets[i])) in self.row_points(i) for i in range(self.rows))

    def trim(self, n: int) -> int:
        n = min(number_of_tokens(n), self.offset)
        self.trim_rows([n] * self.rows)
        return n

    def rollback(self, n: int) -> None:
        """Go back `n` tokens, bit by bit to what the state was. Raises CacheNotTrimmable."""
        self.trim(n)

    def trim_rows(self, counts: Sequence[int]) -> list[int]:
        """Go back in each row by its number of tokens; return how many.

        Raises CacheNotTrimmable, unchanged, where no state was kept after that many.
        """
        counts = [
            min(number_of_tokens(n), max(0, o))
            for n, o in zip(per_row(counts, self.rows, "counts"), self.offsets, strict=True)
        ]
        if not any(counts):
            return counts
        points = []
        for i, n in enumerate(counts):
            point = self._snapshots.find(i, self.offsets[i] - n)
            if point is None and n:
                raise CacheNotTrimmable(
                    f"ArraysCache cannot take {n} tokens back: {self._reach(i)}"
                )
            points.append(len(self._snapshots.kept) - 1 if point is None else point)
        if equal(points):
            self.slots = [copy.copy(slot) for slot in self._snapshots.kept[points[0]].slots]
        else:
            self.slots = [self._mixed(points, index) for index in range(len(self.slots))]
        self.offsets = [o - n for o, n in zip(self.offsets, counts, strict=True)]
        self._snapshots.drop_from(min(points))
        self._snapshots.record(0, self.offsets, self.slots)
        return counts

    def _reach(self, row: int) -> str:
        points = sorted(self.row_points(row) - {0})
        if points:
            return f"it can go back {', '.join(map(str, points))}"
        return "call checkpoint(tokens) before the tokens that may be taken back"

    def _mixed(self, points: Sequence[int], index: int) -> mx.array | None:
        states = [self._snapshots.kept[p].slots[index] for p in points]
        like = next((s for s in states if s is not None), None)
        if like is None:
            return None
        return mx.concatenate(
            [
                mx.zeros_like(like[i : i + 1]) if s is None else s[i : i + 1]
                for i, s in enumerate(states)
            ]
        )

    # Rows.

    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        """Announce padding in the chunks to come: see `Batch.prepare`."""
        if left_padding is not None:
            more = indices(left_padding)
            if any(more) and not self.empty():
                raise ValueError("left_padding comes before the first token, and there are some")
            offsets = self.offsets if len(self.offsets) == len(more) else [0] * len(more)
            self.offsets = [o - m for o, m in zip(offsets, more, strict=True)]
        if right_padding is not None and any(right_padding) and lengths is None:
            raise ValueError("right_padding needs the lengths before it")
        if lengths is not None and left_padding is None:
            self._to_come = indices(lengths)
            if len(self.offsets) != len(self._to_come):
                self.offsets = self.offsets[:1] * len(self._to_come)

    def finalize(self) -> None:
        self._to_come = None

    def filter(self, batch_indices: Iterable[int] | mx.array) -> None:
        """Keep the rows of these indices, in this order."""
        rows = chosen(batch_indices, self.rows)
        if rows == list(range(self.rows)):
            return
        index = mx.array(rows, dtype=mx.int32)

        def some(slots: Slots) -> Slots:
            return [None if slot is None else mx.take(slot, index, axis=0) for slot in slots]

        self.slots = some(self.slots) if rows else [None] * len(self.slots)
        self.offsets = [self.offsets[i] for i in rows]
        if self._to_come is not None:
            self._to_come = [self._to_come[i] for i in rows]
        self._snapshots.select(rows, some)

    def extend(self, other: "ArraysCache") -> None:
        """Add the rows of another cache, which stays as it is. Neither can go back then."""
        joined = self.merge([self, other])
        self.slots, self.offsets = joined.slots, joined.offsets
        self._snapshots.restart(self.offsets, self.slots)

    def extract(self, idx: int) -> Self:
        """Return a row as a cache of its own."""
        made = self.copy()
        made._snapshots = Snapshots()
        made.filter([idx])
        made.slots = [None if slot is None else mx.contiguous(slot) for slot in made.slots]
        return made

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        """Return one cache with the rows of all; state that is not there yet counts as zeros."""
        together(caches, cls, "width")
        parts: list[Any] = list(caches)
        if any(part._to_come is not None for part in parts):
            raise ValueError("finalize() comes before merge() and extend()")
        made = cls(parts[0].width)
        made.offsets = [o for part in parts if part.rows for o in part.offsets]
        for index in range(made.width):
            like = next((p[index] for p in parts if p[index] is not None), None)
            if like is None:
                continue
            rows = [
                mx.zeros((p.rows, *like.shape[1:]), like.dtype) if p[index] is None else p[index]
                for p in parts
                if p.rows
            ]
            made[index] = mx.concatenate(rows) if len(rows) > 1 else copy.copy(rows[0])
        return made

    @property
    def width(self) -> int:
        """The number of slots."""
        return len(self.slots)

    @property
    def state(self) -> Any:
        return list(self.slots), self.left_padding, self.lengths

    @state.setter
    def state(self, value: Any) -> None:
        slots, left_padding, lengths = value
        self.slots = list(slots)
        if left_padding is not None:
            padding = left_padding.tolist()
            offsets = self.offsets if len(self.offsets) == len(padding) else [0] * len(padding)
            self.offsets = [-p if p > 0 else o for p, o in zip(padding, offsets, strict=True)]
        self._to_come = None if lengths is None else lengths.tolist()

    @property
    def meta_state(self) -> tuple[str, ...]:
        """The offset of each row."""
        return tuple(map(str, self.offsets))

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild; without `meta_state`, as in mlx-lm's files, the offset starts from 0."""
        cache = cls(len(state[0]))
        if meta_state:
            cache.offsets = list(map(int, meta_state))
        cache.state = state
        rows = {slot.shape[0] for slot in cache.slots if slot is not None}
        if rows and meta_state and rows != {len(meta_state)}:
            raise ValueError(f"offsets of {len(meta_state)} sequences for state of {rows}")
        return cache
