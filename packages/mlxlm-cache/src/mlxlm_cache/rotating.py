"""A cache of bounded memory: the first tokens and a window of the latest ones.

The window with pinned first tokens ("attention sinks") follows Xiao et al.,
Efficient Streaming Language Models with Attention Sinks, 2023 (arXiv 2309.17453).
"""

from typing import Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.blocks import allocated, grown, rounded_up
from mlxlm_cache.errors import CacheNotBounded, CacheNotTrimmable
from mlxlm_cache.kv import State
from mlxlm_cache.masks import Mask, attention_mask, check_window, visible
from mlxlm_cache.registry import register_cache


@register_cache("RotatingKVCache")
class RotatingKVCache(Cache):
    """At most `max_size` tokens: the first `keep`, then the latest ones.

    The token at position p sees the first `keep` positions and the latest
    `max_size - keep` up to itself, however the tokens came: one by one or in chunks.
    """

    def __init__(self, max_size: int, keep: int = 0) -> None:
        if not 0 <= keep < max_size:
            raise ValueError(
                f"max_size must be more than keep and keep 0 or more, "
                f"not max_size={max_size} and keep={keep}"
            )
        self.max_size = max_size
        self.keep = keep
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.offset = 0
        # The slot after the latest token. Slots fill in order up to max_size; after
        # that, writing goes round in those from `keep` on.
        self._next = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        length = keys.shape[2]
        if self.offset + length <= self.max_size:
            return self._append(keys, values, length)
        if length == 1:
            return self._overwrite(keys, values)
        return self._roll(keys, values, length)

    def _append(self, keys: mx.array, values: mx.array, length: int) -> tuple[mx.array, mx.array]:
        start = self.offset
        end = start + length
        all_keys, all_values = self._room(keys, values, end)
        all_keys[:, :, start:end] = keys
        all_values[:, :, start:end] = values
        self.offset = self._next = end
        return all_keys[:, :, :end], all_values[:, :, :end]

    def _overwrite(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write one token over the oldest that may go."""
        slot = self._next if self._next < self.max_size else self.keep
        all_keys, all_values = self._room(keys, values, self.max_size)
        all_keys[:, :, slot : slot + 1] = keys
        all_values[:, :, slot : slot + 1] = values
        self.offset += 1
        self._next = slot + 1
        return all_keys, all_values

    def _roll(self, keys: mx.array, values: mx.array, length: int) -> tuple[mx.array, mx.array]:
        """Return all that a long chunk may see, and keep what later tokens may see."""
        if self.keys is not None and self.values is not None:
            keys = mx.concatenate([self._in_order(self.keys), keys], axis=2)
            values = mx.concatenate([self._in_order(self.values), values], axis=2)
        self.keys, self.values = self._cut(keys), self._cut(values)
        self.offset += length
        self._next = self.max_size
        return keys, values

    def _room(self, keys: mx.array, values: mx.array, end: int) -> tuple[mx.array, mx.array]:
        """Return buffers with `end` slots at least, growing by blocks up to the bound."""
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > all_keys.shape[2]:
            capacity = min(rounded_up(end), self.max_size)
            self.keys = all_keys = grown(all_keys, keys, self.size(), capacity)
            self.values = all_values = grown(all_values, values, self.size(), capacity)
        return all_keys, all_values

    def _in_order(self, buffer: mx.array) -> mx.array:
        """Return the tokens held, oldest first."""
        if self.offset <= self.max_size:
            return buffer[:, :, : self.offset]
        return mx.concatenate(
            [
                buffer[:, :, : self.keep],
                buffer[:, :, self._next :],
                buffer[:, :, self.keep : self._next],
            ],
            axis=2,
        )

    def _cut(self, ordered: mx.array) -> mx.array:
        """Copy the first `keep` tokens and the latest ones, so that the rest can be freed."""
        latest = ordered[:, :, -(self.max_size - self.keep) :]
        if self.keep == 0:
            return mx.contiguous(latest)
        return mx.concatenate([ordered[:, :, : self.keep], latest], axis=2)

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        end = self.offset + length
        if end <= self.max_size:
            return attention_mask(length, self.offset, window_size, return_array)
        check_window(window_size)
        if length == 1:
            oldest = 0 if self.keep else end - self.max_size
            if window_size is None or end - oldest <= window_size:
                return None
            return self._slot_positions(end) > self.offset - window_size
        queries = mx.arange(self.offset, end)[:, None]
        keys = mx.concatenate([self._positions(), queries[:, 0]])
        mask = visible(queries, keys, self.max_size - self.keep)
        mask = mask | ((keys < self.keep) & (keys <= queries))
        return mask if window_size is None else mask & visible(queries, keys, window_size)

    def _positions(self) -> mx.array:
        """Return the positions of the tokens held, oldest first."""
        recent = mx.arange(max(self.keep, self.offset - (self.max_size - self.keep)), self.offset)
        return mx.concatenate([mx.arange(min(self.keep, self.offset)), recent])

    def _slot_positions(self, end: int) -> mx.array:
        """Return the position in each slot, (1, max_size), after one more token is written."""
        ring = self.max_size - self.keep
        slot = self._next if self._next < self.max_size else self.keep
        age = (slot - mx.arange(self.keep, self.max_size)) % ring
        return mx.concatenate([mx.arange(self.keep), end - 1 - age])[None]

    @property
    def state(self) -> State:
        if self.keys is None or self.values is None or self.offset == 0:
            return None, None
        size = self.size()
        if size == self.keys.shape[2]:
            return self.keys, self.values
        return self.keys[:, :, :size], self.values[:, :, :size]

    @state.setter
    def state(self, value: State) -> None:
        """Replace the arrays by others of the same tokens, in the same slots."""
        self.keys, self.values = value

    @property
    def meta_state(self) -> tuple[str, ...]:
        return tuple(map(str, (self.offset, self.keep, self.max_size, self._next)))

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from keys, values and (offset, keep, max_size, next slot).

        Keys and values may hold more than `max_size` tokens in order, the latest last.
        """
        offset, keep, max_size, following = map(int, meta_state)
        cache = cls(max_size=max_size, keep=keep)
        cache.keys, cache.values = state
        length = 0 if cache.keys is None else cache.keys.shape[2]
        held = min(offset, length)
        slots = range(keep, held + 1) if offset > max_size else (offset,)
        if held < min(offset, max_size) or following not in slots:
            raise ValueError(
                f"offset {offset}, max_size {max_size} and next slot {following} "
                f"do not go with keys of {length} tokens"
            )
        cache.offset, cache._next = offset, following
        if held > max_size and cache.keys is not None and cache.values is not None:
            cache.keys = cache._cut(cache.keys[:, :, :held])
            cache.values = cache._cut(cache.values[:, :, :held])
            cache._next = max_size
        return cache

    def size(self) -> int:
        return min(self.offset, self.max_size)

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)

    def is_trimmable(self) -> bool:
        """Tell whether no token has been dropped yet."""
        return self.offset <= self.max_size

    def trim(self, n: int) -> int:
        n = min(self.offset, number_of_tokens(n))
        if n and not self.is_trimmable():
            raise CacheNotTrimmable(
                f"RotatingKVCache has dropped tokens (max_size={self.max_size}, "
                f"offset={self.offset}), so it cannot take {n} back"
            )
        self.offset -= n
        self._next = self.offset if n else self._next
        return n

    def bounded(self, max_size: int, keep: int) -> "RotatingKVCache":
        """Return an empty cache of the smaller bound; a window of its own has no sinks added."""
        if self.keep >= max_size:
            raise CacheNotBounded(f"max_size must be more than keep={self.keep}, not {max_size}")
        return RotatingKVCache(min(self.max_size, max_size), keep=self.keep)
