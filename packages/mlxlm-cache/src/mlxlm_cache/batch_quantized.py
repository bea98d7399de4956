"""Batches whose keys and values are kept in a few bits."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from mlxlm_cache.affine import Affine
from mlxlm_cache.base import Cache, Packed
from mlxlm_cache.batch import together
from mlxlm_cache.batch_kv import BatchGrowingCache
from mlxlm_cache.batch_ring_rows import BatchRingCache
from mlxlm_cache.quantized import QuantizedKVCache
from mlxlm_cache.registry import register_cache
from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache

_SETTINGS = ("group_size", "bits")


@register_cache("BatchQuantizedKVCache")
class BatchQuantizedKVCache(Affine, BatchGrowingCache[Packed]):
    """The batch of `QuantizedKVCache`."""

    _settings = _SETTINGS

    def __init__(self, left_padding: Iterable[int], *, group_size: int = 64, bits: int = 8) -> None:
        super().__init__(left_padding)
        self._set(group_size, bits)

    @property
    def meta_state(self) -> tuple[str, ...]:
        return str(self.group_size), str(self.bits), *super().meta_state

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild; `meta_state` is (group_size, bits), then as in BatchKVCache."""
        group_size, bits, end = map(int, meta_state)
        batch = cls([], group_size=group_size, bits=bits)
        batch._restore(state, end)
        return batch

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        together(caches, QuantizedKVCache, *_SETTINGS)
        first: Any = caches[0]
        batch = cls([], group_size=first.group_size, bits=first.bits)
        return cls._merged(caches, batch)  # type: ignore[arg-type]

    def extract(self, idx: int) -> QuantizedKVCache:
        cache = QuantizedKVCache(group_size=self.group_size, bits=self.bits)
        self._extracted(idx, cache)
        return cache


@register_cache("BatchRotatingQuantizedKVCache")
class BatchRotatingQuantizedKVCache(Affine, BatchRingCache[Packed]):
    """The batch of `RotatingQuantizedKVCache`."""

    _settings = (*BatchRingCache._settings, *_SETTINGS)

    def __init__(
        self,
        max_size: int,
        left_padding: Iterable[int],
        keep: int = 0,
        slack: int = 0,
        *,
        group_size: int = 64,
        bits: int = 8,
    ) -> None:
        super().__init__(max_size, left_padding, keep, slack)
        self._set(group_size, bits)

    @property
    def meta_state(self) -> tuple[str, ...]:
        return str(self.group_size), str(self.bits), *self._numbers()

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild; `meta_state` is (group_size, bits, max_size, keep, slack)."""
        group_size, bits, max_size, keep, slack = map(int, meta_state)
        batch = cls(max_size, [], keep, slack, group_size=group_size, bits=bits)
        batch._restore(state)
        return batch

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        together(caches, RotatingQuantizedKVCache, *cls._settings)
        first: Any = caches[0]
        batch = cls(
            first.max_size,
            [],
            first.keep,
            first.slack,
            group_size=first.group_size,
            bits=first.bits,
        )
        return cls._merged(caches, batch)  # type: ignore[arg-type]

    def extract(self, idx: int) -> RotatingQuantizedKVCache:
        cache = RotatingQuantizedKVCache(
            self.max_size, self.keep, self.slack, group_size=self.group_size, bits=self.bits
        )
        self._extracted(idx, cache)
        return cache
