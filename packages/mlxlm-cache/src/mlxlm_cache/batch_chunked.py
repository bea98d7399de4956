"""A batch of sequences whose attention is in chunks."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import mlx.core as mx

from mlxlm_cache.base import Cache
from mlxlm_cache.batch import chosen, column, equal, together
from mlxlm_cache.batch_kv import BatchGrowingCache, stacked
from mlxlm_cache.chunked import ChunkedKVCache, check_chunk_size, most_slots, reach
from mlxlm_cache.masks import Mask, attention_mask, check_window, visible
from mlxlm_cache.parts import between, each, length, row
from mlxlm_cache.registry import register_cache


@register_cache("BatchChunkedKVCache")
class BatchChunkedKVCache(BatchGrowingCache[mx.array]):
    """The batch of `ChunkedKVCache`."""

    _settings = ("chunk_size",)

    def __init__(self, chunk_size: int, left_padding: Iterable[int], slack: int = 0) -> None:
        check_chunk_size(chunk_size, slack)
        super().__init__(left_padding)
        self.chunk_size = chunk_size
        self.slack = slack

    def pack(self, array: mx.array) -> mx.array:
        return array

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        if max(self.ends) + keys.shape[2] > length(self.keys):
            self._forget_front(copy=False)  # the buffers that follow are new ones
        start = self._start()
        all_keys, all_values = super().update_and_fetch(keys, values)
        end = max(self.ends)
        fetched = between(all_keys, start, end), between(all_values, start, end)
        if end > most_slots(self.chunk_size + self.slack):
            self._forget_front()
        return fetched

    def _start(self) -> int:
        """Return the first slot that the next tokens may see."""
        pairs = zip(self.ends, self.offsets, strict=True)
        return max(0, min(e - max(0, o) % self.chunk_size for e, o in pairs))

    def _forget_front(self, *, copy: bool = True) -> None:
        """Forget slots behind the latest `chunk_size` tokens, and the slack, of every row.

        With `copy`, so that their memory is free. Not before the right padding is known to
        be some: it would pass for the latest.
        """
        if self._right_padding and any(self._right_padding):
            return
        pairs = zip(self.ends, self.left_padding, strict=True)
        wanted = self.chunk_size + self.slack
        surplus = min(e - min(wanted, max(0, e - p)) for e, p in pairs)
        if surplus <= 0 or self.keys is None or self.values is None:
            return
        end = max(self.ends)
        self.keys, self.values = (
            each(mx.contiguous, part) if copy else part
            for part in (between(self.keys, surplus, end), between(self.values, surplus, end))
        )
        self.ends = [e - surplus for e in self.ends]
        self.left_padding = [max(0, p - surplus) for p in self.left_padding]

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        start, size = self._start(), self.chunk_size
        if equal(self.offsets) and equal(self.ends) and self.offsets[0] >= 0:
            inside = self.offsets[0] % size
            if inside + length <= size:
                return attention_mask(length, inside, window_size, return_array)
        check_window(window_size)
        queries = (column(self.ends) + mx.arange(length))[..., None]
        keys = mx.arange(start, max(self.ends) + length)
        shift = column([o - e for o, e in zip(self.offsets, self.ends, strict=True)])[..., None]
        same = (queries + shift) // size == (keys + shift) // size
        # A padding query sees itself: a row of the softmax over nothing would not be a number.
        first = mx.minimum(column(self.left_padding)[..., None], queries)
        return (visible(queries, keys, window_size) & same & (keys >= first))[:, None]

    @property
    def checkpointed(self) -> int:
        return self.slack

    def checkpoint(self, tokens: int = 8) -> None:
        """From now on, hold what is needed to take up to `tokens` tokens back at any time."""
        check_chunk_size(self.chunk_size, tokens)
        self.slack = tokens

    def row_limits(self) -> list[int]:
        rows = zip(self.offsets, self.ends, self.left_padding, strict=True)
        return [reach(max(0, o), max(0, o - max(0, e - p)), self.chunk_size) for o, e, p in rows]

    @property
    def meta_state(self) -> tuple[str, ...]:
        return str(self.chunk_size), str(self.slack), *super().meta_state

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild; `meta_state` is (chunk size, slack), then as in BatchKVCache."""
        chunk_size, slack, end = map(int, meta_state)
        batch = cls(chunk_size, [], slack)
        batch._restore(state, end)
        return batch

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        together(caches, ChunkedKVCache, "chunk_size")
        singles: list[Any] = list(caches)
        batch = cls(singles[0].chunk_size, [], max(single.slack for single in singles))
        sizes = [single.size() for single in singles]
        end = max(sizes)
        batch.offsets = [single.offset for single in singles]
        batch.left_padding = [end - n for n in sizes]
        batch.ends = [end] * len(singles)
        batch.keys = stacked([(s.keys, 1, s.size()) for s in singles], end)
        batch.values = stacked([(s.values, 1, s.size()) for s in singles], end)
        return batch

    def extract(self, idx: int) -> ChunkedKVCache:
        (idx,) = chosen([idx], self.rows)
        cache = ChunkedKVCache(self.chunk_size, self.slack)
        start, end, offset = self.left_padding[idx], self.ends[idx], self.offsets[idx]
        if offset > 0:  # also where the tokens before a new chunk are forgotten
            cache.offset, cache._first = offset, offset - (end - start)
        if self.keys is not None and self.values is not None and start < end:
            cache.state = row(self.keys, idx, start, end), row(self.values, idx, start, end)
        return cache
