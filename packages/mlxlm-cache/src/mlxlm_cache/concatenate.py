"""The simplest cache: one concatenation a step. For reference and short sequences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.kv import KVCache, State
from mlxlm_cache.parts import allocated
from mlxlm_cache.registry import register_cache

if TYPE_CHECKING:
    from mlxlm_cache.batch_kv import BatchKVCache
    from mlxlm_cache.quantized import QuantizedKVCache
    from mlxlm_cache.rotating import RotatingKVCache


@register_cache("ConcatenateKVCache")
class ConcatenateKVCache(Cache):
    """Keys and values of every token, never more memory than they need."""

    def __init__(self) -> None:
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.offset = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        if self.keys is not None and self.values is not None:
            keys = mx.concatenate([self.keys, keys], axis=2)
            values = mx.concatenate([self.values, values], axis=2)
        self.keys, self.values, self.offset = keys, values, keys.shape[2]
        return keys, values

    @property
    def state(self) -> State:
        if self.keys is None or self.values is None:
            return None, None
        return self.keys, self.values

    @state.setter
    def state(self, value: State) -> None:
        self.keys, self.values = value
        self.offset = 0 if self.keys is None else self.keys.shape[2]

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        if meta_state:
            raise ValueError(f"{cls.__name__} has no meta_state, got {meta_state}")
        cache = cls()
        cache.state = state
        return cache

    def size(self) -> int:
        return self.offset

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        n = min(self.offset, number_of_tokens(n))
        left = self.offset - n
        if self.keys is None or self.values is None or left == 0:
            self.state = None, None
        else:
            self.state = self.keys[:, :, :left], self.values[:, :, :left]
        return n

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> "BatchKVCache":
        from mlxlm_cache.batch_kv import BatchKVCache

        return BatchKVCache.merge(caches)

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> "QuantizedKVCache":
        return KVCache.from_state(self.state).to_quantized(group_size, bits)

    def bounded(self, max_size: int, keep: int) -> "RotatingKVCache":
        return KVCache().bounded(max_size, keep)
