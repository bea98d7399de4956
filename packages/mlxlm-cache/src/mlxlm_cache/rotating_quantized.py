"""A bounded cache in a few bits: the first tokens and a window of the latest ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from mlxlm_cache.affine import Affine
from mlxlm_cache.base import Cache, Packed
from mlxlm_cache.registry import register_cache
from mlxlm_cache.window import RotatingCache

if TYPE_CHECKING:
    from mlxlm_cache.batch_quantized import BatchRotatingQuantizedKVCache


@register_cache("RotatingQuantizedKVCache")
class RotatingQuantizedKVCache(Affine, RotatingCache[Packed]):
    """What `RotatingKVCache` is, quantized along the head dimension."""

    def __init__(
        self, max_size: int, keep: int = 0, slack: int = 0, *, group_size: int = 64, bits: int = 8
    ) -> None:
        super().__init__(max_size, keep, slack)
        self._set(group_size, bits)

    @property
    def meta_state(self) -> tuple[str, ...]:
        return str(self.group_size), str(self.bits), *super().meta_state

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild; `meta_state` is (group_size, bits), then as in RotatingKVCache."""
        group_size, bits, offset, keep, max_size, following, *rest = map(int, meta_state)
        slack, oldest = rest or (0, None)
        cache = cls(max_size, keep, slack, group_size=group_size, bits=bits)
        cache._restore(state, offset, following, oldest)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> "BatchRotatingQuantizedKVCache":
        from mlxlm_cache.batch_quantized import BatchRotatingQuantizedKVCache

        return BatchRotatingQuantizedKVCache.merge(caches)

    def bounded(self, max_size: int, keep: int) -> "RotatingQuantizedKVCache":
        """Return an empty cache of the smaller bound; a window of its own has no sinks added."""
        return RotatingQuantizedKVCache(
            self._bound(max_size),
            self.keep,
            self.slack,
            group_size=self.group_size,
            bits=self.bits,
        )
