"""Keys and values in a few bits: less memory, at a small cost in speed and precision."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from mlxlm_cache.affine import Affine
from mlxlm_cache.base import Cache, Packed
from mlxlm_cache.kv import GrowingCache
from mlxlm_cache.registry import register_cache

if TYPE_CHECKING:
    from mlxlm_cache.batch_quantized import BatchQuantizedKVCache
    from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache

State = tuple[Packed, Packed] | tuple[None, None]


@register_cache("QuantizedKVCache")
class QuantizedKVCache(Affine, GrowingCache[Packed]):
    """Every token's keys and values, quantized along the head dimension."""

    def __init__(self, group_size: int = 64, bits: int = 8) -> None:
        super().__init__()
        self._set(group_size, bits)

    @property
    def meta_state(self) -> tuple[str, ...]:
        return str(self.offset), str(self.group_size), str(self.bits)

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from packed keys and values and (offset, group_size, bits)."""
        offset, group_size, bits = map(int, meta_state)
        cache = cls(group_size=group_size, bits=bits)
        cache.state = state
        cache._set_offset(offset)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> "BatchQuantizedKVCache":
        from mlxlm_cache.batch_quantized import BatchQuantizedKVCache

        return BatchQuantizedKVCache.merge(caches)

    def bounded(self, max_size: int, keep: int) -> "RotatingQuantizedKVCache":
        from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache

        return RotatingQuantizedKVCache(max_size, keep, group_size=self.group_size, bits=self.bits)
