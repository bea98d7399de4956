"""A batch of sequences of which each keeps its first tokens and a window of its latest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import mlx.core as mx

from mlxlm_cache.base import Cache
from mlxlm_cache.batch import row_array, together
from mlxlm_cache.batch_ring_rows import BatchRingCache
from mlxlm_cache.parts import (
    between,
    joined,
    length,
)
from mlxlm_cache.registry import register_cache
from mlxlm_cache.rotating import RotatingKVCache

if TYPE_CHECKING:
    from mlxlm_cache.batch_quantized import BatchRotatingQuantizedKVCache


@register_cache("BatchRotatingKVCache")
class BatchRotatingKVCache(BatchRingCache[mx.array]):
    """The batch of `RotatingKVCache`."""

    def pack(self, array: mx.array) -> mx.array:
        return array

    @property
    def _plain(self) -> bool:
        """Whether mlx-lm has such a cache, and its layout of files can hold it."""
        return self.keep == 0 and self.slack == 0

    @property
    def state(self) -> Any:
        if not self._plain:
            return super().state
        batch = self
        used = max(self._in_ring, default=0)
        if used != self._used or any(f != used for f in self._following):
            batch = self.copy()
            batch._align()
        keys, values, offsets, _, _ = super(BatchRotatingKVCache, batch).state
        return keys, values, offsets, row_array([batch._used - o for o in batch.offsets])

    @state.setter
    def state(self, value: Any) -> None:
        BatchRingCache.state.fset(self, value)  # type: ignore[attr-defined]

    @property
    def meta_state(self) -> tuple[str, ...]:
        """(max_size, keep, slack); or mlx-lm's (max_size, tokens, next slot, rotated)."""
        if not self._plain:
            return self._numbers()
        used = max(self._in_ring, default=0)
        return str(self.max_size), str(max(used, self.tokens_seen)), str(used), "False"

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        if len(meta_state) == 3:
            max_size, keep, slack = map(int, meta_state)
            batch = cls(max_size, [], keep, slack)
            batch._restore(state)
            return batch
        max_size, _, following = map(int, meta_state[:3])
        batch = cls(max_size, [])
        keys, values, offsets, padding = state
        order = [(0, following)]
        if meta_state[3] == "True":
            order = [(following, max_size), (0, following)]
        surplus = 0
        if keys is not None:
            if not 0 <= following <= keys.shape[2]:
                raise ValueError(f"next slot {following}, but keys of {keys.shape[2]} tokens")
            keys = joined([between(keys, *part) for part in order])
            values = joined([between(values, *part) for part in order])
            surplus = max(0, keys.shape[2] - max_size)
            keys, values = keys[:, :, surplus:], values[:, :, surplus:]
        batch.keys, batch.values = keys, values
        batch._used = length(keys)
        batch.offsets = offsets.tolist()
        held = [batch._used - max(0, p - surplus) for p in padding.tolist()]
        batch._oldest = [max(0, o - n) for o, n in zip(batch.offsets, held, strict=True)]
        batch._following = [batch._used] * batch.rows
        return batch

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        together(caches, RotatingKVCache, *cls._settings)
        first: Any = caches[0]
        return cls._merged(caches, cls(first.max_size, [], first.keep))  # type: ignore[arg-type]

    def extract(self, idx: int) -> RotatingKVCache:
        cache = RotatingKVCache(self.max_size, self.keep, self.slack)
        self._extracted(idx, cache)
        return cache

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> "BatchRotatingQuantizedKVCache":
        from mlxlm_cache.batch_quantized import BatchRotatingQuantizedKVCache

        batch = BatchRotatingQuantizedKVCache(
            self.max_size, [], self.keep, self.slack, group_size=group_size, bits=bits
        )
        keys, values = self._live(self.keys), self._live(self.values)
        if keys is not None and values is not None:
            batch.keys, batch.values = batch.pack(keys), batch.pack(values)
        batch.offsets, batch._used = list(self.offsets), self._used
        batch._following, batch._oldest = list(self._following), list(self._oldest)
        return batch
