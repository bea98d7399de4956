"""A cache of bounded memory: the first tokens and a window of the latest ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import mlx.core as mx

from mlxlm_cache.base import Cache
from mlxlm_cache.kv import State
from mlxlm_cache.registry import register_cache
from mlxlm_cache.window import RotatingCache

if TYPE_CHECKING:
    from mlxlm_cache.batch_rotating import BatchRotatingKVCache
    from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache


@register_cache("RotatingKVCache")
class RotatingKVCache(RotatingCache[mx.array]):
    """The first `keep` tokens and the latest ones, `max_size` in all. See `RotatingCache`."""

    def pack(self, array: mx.array) -> mx.array:
        return array

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from keys, values and (offset, keep, max_size, next slot).

        With a slack, (…, slack, lowest position in the ring) follow.
        """
        offset, keep, max_size, following, *rest = map(int, meta_state)
        slack, oldest = rest or (0, None)
        cache = cls(max_size=max_size, keep=keep, slack=slack)
        cache._restore(state, offset, following, oldest)
        return cache

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> "BatchRotatingKVCache":
        from mlxlm_cache.batch_rotating import BatchRotatingKVCache

        return BatchRotatingKVCache.merge(caches)

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> "RotatingQuantizedKVCache":
        from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache

        cache = RotatingQuantizedKVCache(
            self.max_size, self.keep, self.slack, group_size=group_size, bits=bits
        )
        if self.keys is not None and self.values is not None:
            cache.keys = cache.pack(self._live(self.keys))
            cache.values = cache.pack(self._live(self.values))
        cache.offset, cache._at = self.offset, self._at
        return cache

    def bounded(self, max_size: int, keep: int) -> "RotatingKVCache":
        """Return an empty cache of the smaller bound; a window of its own has no sinks added."""
        return RotatingKVCache(self._bound(max_size), keep=self.keep, slack=self.slack)
