"""The default cache: everything is kept, in buffers that grow in blocks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.blocks import rounded_up
from mlxlm_cache.parts import Stored, allocated, as_stored, between, grown, length, write
from mlxlm_cache.registry import register_cache

if TYPE_CHECKING:
    from mlxlm_cache.batch_kv import BatchKVCache
    from mlxlm_cache.quantized import QuantizedKVCache
    from mlxlm_cache.rotating import RotatingKVCache

State = tuple[mx.array, mx.array] | tuple[None, None]


class GrowingCache(Cache, Generic[Stored]):
    """Keys and values of every token; new ones are written in place."""

    def __init__(self) -> None:
        self.keys: Stored | None = None
        self.values: Stored | None = None
        self.offset = 0

    def pack(self, array: mx.array) -> Stored:
        """Return what is stored of keys or values."""
        raise NotImplementedError

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Stored, Stored]:
        new_keys, new_values = self.pack(keys), self.pack(values)
        start = self.offset
        end = start + keys.shape[2]
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > length(all_keys):
            capacity = rounded_up(end)
            self.keys = all_keys = grown(all_keys, new_keys, start, capacity)
            self.values = all_values = grown(all_values, new_values, start, capacity)
        write(all_keys, start, end, new_keys)
        write(all_values, start, end, new_values)
        self.offset = end
        return between(all_keys, 0, end), between(all_values, 0, end)

    @property
    def state(self) -> Any:
        if self.keys is None or self.values is None or self.offset == 0:
            return None, None
        return between(self.keys, 0, self.offset), between(self.values, 0, self.offset)

    @state.setter
    def state(self, value: Any) -> None:
        self.keys, self.values = map(as_stored, value)
        self.offset = length(self.keys)

    def size(self) -> int:
        return self.offset

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        n = min(self.offset, number_of_tokens(n))
        self.offset -= n
        return n

    def _set_offset(self, offset: int) -> None:
        if not 0 <= offset <= self.offset:
            raise ValueError(f"offset {offset}, but keys of {self.offset} tokens")
        self.offset = offset


@register_cache("KVCache")
class KVCache(GrowingCache[mx.array]):
    """Keys and values of every token, as they come."""

    def pack(self, array: mx.array) -> mx.array:
        return array

    @property
    def meta_state(self) -> tuple[str, ...]:
        return (str(self.offset),)

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from keys and values; the offset is theirs unless `meta_state` has one."""
        cache = cls()
        cache.state = state
        if meta_state:
            (offset,) = map(int, meta_state)
            cache._set_offset(offset)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> "BatchKVCache":
        from mlxlm_cache.batch_kv import BatchKVCache

        return BatchKVCache.merge(caches)

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> "QuantizedKVCache":
        from mlxlm_cache.quantized import QuantizedKVCache

        cache = QuantizedKVCache(group_size=group_size, bits=bits)
        if self.keys is not None and self.values is not None:
            cache.keys, cache.values = cache.pack(self.keys), cache.pack(self.values)
            cache.offset = self.offset
        return cache

    def bounded(self, max_size: int, keep: int) -> "RotatingKVCache":
        from mlxlm_cache.rotating import RotatingKVCache

        return RotatingKVCache(max_size=max_size, keep=keep)
