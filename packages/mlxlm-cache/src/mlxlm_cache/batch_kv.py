"""A batch of sequences that are kept whole."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self

import mlx.core as mx

from mlxlm_cache.base import Cache
from mlxlm_cache.batch import Batch, chosen, column, equal, per_row, row_array, together
from mlxlm_cache.blocks import rounded_up
from mlxlm_cache.concatenate import ConcatenateKVCache
from mlxlm_cache.kv import GrowingCache, KVCache
from mlxlm_cache.masks import Mask, attention_mask, check_window, visible
from mlxlm_cache.parts import (
    Stored,
    allocated,
    as_stored,
    between,
    blank,
    gathered,
    grown,
    joined,
    length,
    placed,
    row,
    scattered,
    taken,
)
from mlxlm_cache.registry import register_cache

if TYPE_CHECKING:
    from mlxlm_cache.batch_quantized import BatchQuantizedKVCache


class BatchGrowingCache(Batch, Generic[Stored]):
    """Row i's tokens are in slots `left_padding`[i] up to `ends`[i], in order.

    Rows that end at the same slot are written to in one piece; they do unless a row gave
    tokens back. Where no row has padding, masks are those of a single sequence.
    """

    def __init__(self, left_padding: Iterable[int]) -> None:
        self.left_padding = [int(p) for p in left_padding]
        if any(p < 0 for p in self.left_padding):
            raise ValueError(f"left_padding must be 0 or more, not {self.left_padding}")
        self.offsets = [-p for p in self.left_padding]
        self.ends = [0] * self.rows
        self.keys: Stored | None = None
        self.values: Stored | None = None
        self._right_padding: list[int] | None = None

    def pack(self, array: mx.array) -> Stored:
        """Return what is stored of keys or values."""
        raise NotImplementedError

    def _like(self) -> Self:
        """Return a batch of no rows with the same settings."""
        return type(self)([])

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Stored, Stored]:
        batch, _, count, _ = keys.shape
        if batch != self.rows:
            raise ValueError(f"keys of {batch} sequences for a batch of {self.rows} rows")
        new_keys, new_values = self.pack(keys), self.pack(values)
        ends = self.ends
        end = max(ends) + count
        if equal(ends):
            self.keys = all_keys = placed(self.keys, new_keys, end - count, end - count)
            self.values = all_values = placed(self.values, new_values, end - count, end - count)
            self.ends = [end] * batch
        else:
            all_keys, all_values = self._room(new_keys, new_values, end)
            self.ends = [e + count for e in ends]
            slots = column(ends) + mx.arange(count)
            self.keys = all_keys = scattered(all_keys, slots, new_keys)
            self.values = all_values = scattered(all_values, slots, new_values)
        self.offsets = [o + count for o in self.offsets]
        return between(all_keys, 0, end), between(all_values, 0, end)

    def _room(self, keys: Stored, values: Stored, end: int) -> tuple[Stored, Stored]:
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > length(all_keys):
            capacity, used = rounded_up(end), max(self.ends)
            self.keys = all_keys = grown(all_keys, keys, used, capacity)
            self.values = all_values = grown(all_values, values, used, capacity)
        return all_keys, all_values

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        """Return the mask for the next `length` tokens, (B, 1, L, keys) where rows differ."""
        if not any(self.left_padding) and equal(self.ends):
            return attention_mask(length, self.ends[0], window_size, return_array)
        check_window(window_size)
        if length == 1 and window_size is None and equal(self.ends) and min(self.offsets) >= 0:
            mask = mx.arange(self.ends[0] + 1) >= column(self.left_padding)
            return mask[:, None, None]
        queries = (column(self.ends) + mx.arange(length))[..., None]
        keys = mx.arange(max(self.ends) + length)
        # A padding query sees itself: a row of the softmax over nothing would not be a number.
        first = mx.minimum(column(self.left_padding)[..., None], queries)
        mask = visible(queries, keys, window_size) & (keys >= first)
        return mask[:, None]

    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        if left_padding is not None:
            more = per_row(left_padding, self.rows, "left_padding")
            if any(more) and any(self.ends):
                raise ValueError("left_padding comes before the first token, and there are some")
            self.left_padding = [p + m for p, m in zip(self.left_padding, more, strict=True)]
            self.offsets = [-p for p in self.left_padding]
        if right_padding is not None:
            self._right_padding = per_row(right_padding, self.rows, "right_padding")

    def finalize(self) -> None:
        counts, self._right_padding = self._right_padding, None
        if counts and any(counts):
            self._take_back(counts)
            self._align()

    def _take_back(self, counts: Sequence[int]) -> None:
        self.offsets = [o - n for o, n in zip(self.offsets, counts, strict=True)]
        self.ends = [e - n for e, n in zip(self.ends, counts, strict=True)]

    def row_limits(self) -> list[int]:
        return [max(0, o) for o in self.offsets]

    def _align(self) -> None:
        """Move rows so that all end at the slot of the longest."""
        if not self.offsets:
            return
        held = [e - p for e, p in zip(self.ends, self.left_padding, strict=True)]
        end = max(0, *held)  # below zero: padding that is still to come
        padding = [end - h for h in held]
        if self.keys is not None and self.values is not None:
            moves = [p - q for p, q in zip(self.left_padding, padding, strict=True)]
            self.keys = moved(self.keys, moves, end)
            self.values = moved(self.values, moves, end)
        self.left_padding = padding
        self.ends = [end] * self.rows

    def _aligned(self) -> Self:
        """Return this batch if all rows end at the slot of the longest, or such a copy."""
        if self.ends and equal(self.ends) and min(self.left_padding) == 0:
            return self
        batch = self.copy()
        batch._align()
        return batch

    def filter(self, batch_indices: Iterable[int] | mx.array) -> None:
        rows = chosen(batch_indices, self.rows)
        if rows == list(range(self.rows)):
            return
        self.offsets = [self.offsets[i] for i in rows]
        self.ends = [self.ends[i] for i in rows]
        self.left_padding = [self.left_padding[i] for i in rows]
        if self._right_padding:
            self._right_padding = [self._right_padding[i] for i in rows]
        if not rows:
            self.keys = self.values = None
        elif self.keys is not None and self.values is not None:
            self.keys, self.values = taken(self.keys, rows), taken(self.values, rows)
            if self._right_padding is None and all(self.left_padding):
                self._align()

    def extend(self, other: Self) -> None:
        together([self, other], type(self), *self._settings)
        if self._right_padding or other._right_padding:
            raise ValueError("finalize() comes before extend()")
        if not other.rows:
            return
        both = [batch._aligned() for batch in (self, other)]
        ends = [max(batch.ends, default=0) for batch in both]
        end = max(ends)
        spans = list(zip(both, ends, strict=True))
        keys = stacked([(batch.keys, batch.rows, own) for batch, own in spans], end)
        values = stacked([(batch.values, batch.rows, own) for batch, own in spans], end)
        self.left_padding = [p + end - own for batch, own in spans for p in batch.left_padding]
        self.offsets = [offset for batch in both for offset in batch.offsets]
        self.ends = [end] * len(self.offsets)
        self.keys, self.values = keys, values

    _settings: tuple[str, ...] = ()

    @classmethod
    def _merged(cls, caches: Sequence[GrowingCache[Stored]], batch: Self) -> Self:
        """Fill a batch of no rows."""
        lengths = [cache.offset for cache in caches]
        end = max(lengths)
        batch.offsets = lengths
        batch.left_padding = [end - n for n in lengths]
        batch.ends = [end] * len(lengths)
        batch.keys = stacked([(c.keys, 1, c.offset) for c in caches], end)
        batch.values = stacked([(c.values, 1, c.offset) for c in caches], end)
        return batch

    def _extracted(self, idx: int, cache: GrowingCache[Stored]) -> None:
        """Fill an empty cache with a row."""
        (idx,) = chosen([idx], self.rows)
        start, end = self.left_padding[idx], self.ends[idx]
        if self.keys is not None and self.values is not None and start < end:
            cache.state = row(self.keys, idx, start, end), row(self.values, idx, start, end)

    @property
    def state(self) -> Any:
        batch = self if self.ends and equal(self.ends) else self._aligned()
        end = max(batch.ends, default=0)
        keys, values = batch.keys, batch.values
        if keys is not None and values is not None:
            keys, values = between(keys, 0, end), between(values, 0, end)
        return keys, values, row_array(batch.offsets), row_array(batch.left_padding)

    @state.setter
    def state(self, value: Any) -> None:
        keys, values, offsets, left_padding = value
        self.keys, self.values = as_stored(keys), as_stored(values)
        self.offsets = offsets.tolist()
        self.left_padding = left_padding.tolist()
        self.ends = [length(self.keys)] * self.rows

    @property
    def meta_state(self) -> tuple[str, ...]:
        ends = self.ends
        if ends and not equal(ends):  # the state is aligned
            ends = [e - p for e, p in zip(ends, self.left_padding, strict=True)]
        return (str(max(0, *ends) if ends else 0),)

    def _restore(self, state: Any, end: int) -> None:
        self.state = state
        if not 0 <= end <= length(self.keys):
            raise ValueError(f"slot {end}, but keys of {length(self.keys)} tokens")
        self.ends = [end] * self.rows

    def size(self) -> int:
        return max(self.ends, default=0)

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)


@register_cache("BatchKVCache")
class BatchKVCache(BatchGrowingCache[mx.array]):
    """The batch of `KVCache`."""

    def pack(self, array: mx.array) -> mx.array:
        return array

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from keys, values, offsets, left padding and (slot after the latest token)."""
        batch = cls([])
        (end,) = map(int, meta_state)
        batch._restore(state, end)
        return batch

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        """Merge caches of which each is a KVCache or a ConcatenateKVCache."""
        whole = [
            KVCache.from_state(c.state) if isinstance(c, ConcatenateKVCache) else c for c in caches
        ]
        together(whole, KVCache)
        return cls._merged(whole, cls([]))  # type: ignore[arg-type]

    def extract(self, idx: int) -> KVCache:
        cache = KVCache()
        self._extracted(idx, cache)
        return cache

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> "BatchQuantizedKVCache":
        from mlxlm_cache.batch_quantized import BatchQuantizedKVCache

        batch = BatchQuantizedKVCache([], group_size=group_size, bits=bits)
        batch.offsets, batch.ends = list(self.offsets), list(self.ends)
        batch.left_padding = list(self.left_padding)
        if self.keys is not None and self.values is not None:
            batch.keys, batch.values = batch.pack(self.keys), batch.pack(self.values)
        return batch


def moved(stored: Stored, moves: Sequence[int], end: int) -> Stored:
    """Return slots 0 to `end`, where slot s of row i was slot s + `moves`[i]."""
    if equal(moves):
        first = moves[0]
        if first >= 0:
            return between(stored, first, first + end)
        return joined([blank(stored, -first), between(stored, 0, first + end)])
    slots = mx.clip(column(moves) + mx.arange(end), 0, length(stored) - 1)
    return gathered(stored, slots)


def stacked(
    batches: Sequence[tuple[Stored | None, int, int]], end: int, capacity: int | None = None
) -> Stored | None:
    """Join rows that end at slots of their own so that all end at `end`.

    `batches` are (stored, rows, end) triples; where nothing is stored, rows are blank.
    """
    like = next((stored for stored, _, _ in batches if stored is not None), None)
    if like is None:
        return None
    capacity = capacity or rounded_up(end)
    pieces = []
    for stored, rows, own in batches:
        if not rows:
            continue
        if stored is None:
            pieces.append(taken(blank(between(like, 0, 0), capacity), [0] * rows))
            continue
        spread = [between(stored, 0, own)]
        if end > own:
            spread.insert(0, blank(stored, end - own))
        if capacity > end:
            spread.append(blank(stored, capacity - end))
        pieces.append(joined(spread))
    return joined(pieces, axis=0)
