"""The default cache: everything is kept, in buffers that grow in blocks."""

from typing import TYPE_CHECKING, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.blocks import allocated, grown, rounded_up
from mlxlm_cache.registry import register_cache

if TYPE_CHECKING:
    from mlxlm_cache.quantized import QuantizedKVCache
    from mlxlm_cache.rotating import RotatingKVCache

State = tuple[mx.array, mx.array] | tuple[None, None]


@register_cache("KVCache")
class KVCache(Cache):
    """Keys and values of every token; new ones are written in place."""

    def __init__(self) -> None:
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.offset = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        start = self.offset
        end = start + keys.shape[2]
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > all_keys.shape[2]:
            capacity = rounded_up(end)
            self.keys = all_keys = grown(all_keys, keys, start, capacity)
            self.values = all_values = grown(all_values, values, start, capacity)
        all_keys[:, :, start:end] = keys
        all_values[:, :, start:end] = values
        self.offset = end
        return all_keys[:, :, :end], all_values[:, :, :end]

    @property
    def state(self) -> State:
        if self.keys is None or self.values is None or self.offset == 0:
            return None, None
        return self.keys[:, :, : self.offset], self.values[:, :, : self.offset]

    @state.setter
    def state(self, value: State) -> None:
        self.keys, self.values = value
        self.offset = 0 if self.keys is None else self.keys.shape[2]

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
            if not 0 <= offset <= cache.offset:
                raise ValueError(f"offset {offset}, but keys of {cache.offset} tokens")
            cache.offset = offset
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
        self.offset -= n
        return n

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
