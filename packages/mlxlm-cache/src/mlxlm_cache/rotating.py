"""A cache of bounded memory: the first tokens and a window of the latest ones.

The window with pinned first tokens ("attention sinks") follows Xiao et al.,
Efficient Streaming Language Models with Attention Sinks, 2023 (arXiv 2309.17453).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.blocks import rounded_up
from mlxlm_cache.errors import CacheNotBounded, CacheNotTrimmable
from mlxlm_cache.kv import State
from mlxlm_cache.masks import Mask, attention_mask, check_window
from mlxlm_cache.parts import (
    Stored,
    allocated,
    as_stored,
    between,
    each,
    grown,
    joined,
    length,
    write,
)
from mlxlm_cache.registry import register_cache
from mlxlm_cache.ring import in_order, slot_positions, window_mask, write_places

if TYPE_CHECKING:
    from mlxlm_cache.batch_rotating import BatchRotatingKVCache
    from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache


class Layout(NamedTuple):
    """The slots in use, the slot after the latest token, the lowest position in the ring."""

    used: int
    following: int
    oldest: int


class RotatingCache(Cache, Generic[Stored]):
    """The first `keep` tokens and the latest ones, `max_size` in all.

    The token at position p sees the first `keep` positions and the latest
    `max_size - keep` up to itself, however the tokens came: one by one or in chunks.
    `slack` more tokens are held, unseen, so that as many can be taken back at any time.
    """

    def __init__(self, max_size: int, keep: int = 0, slack: int = 0) -> None:
        check_bounds(max_size, keep, slack)
        self.max_size = max_size
        self.keep = keep
        self.slack = slack
        self.keys: Stored | None = None
        self.values: Stored | None = None
        self.offset = 0
        self._at = Layout(used=0, following=0, oldest=keep)

    def pack(self, array: mx.array) -> Stored:
        """Return what is stored of keys or values."""
        raise NotImplementedError

    @property
    def capacity(self) -> int:
        return self.max_size + self.slack

    @property
    def _dropped(self) -> bool:
        return self._at.oldest > self.keep

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Stored, Stored]:
        count = keys.shape[2]
        if self._fits(count):
            return self._write(self.pack(keys), self.pack(values), count)
        return self._roll(self.pack(keys), self.pack(values), count)

    def _fits(self, count: int) -> bool:
        """Tell whether tokens can be written in place, over none that they may see."""
        return count <= self.slack + 1 or self.offset + count <= self.capacity

    def _after(self, count: int) -> Layout:
        """Return the layout after `count` tokens are written in place."""
        *_, last = places = self._places(count)
        used = self.capacity if len(places) > 1 else max(self._at.used, last[1])
        oldest = max(self._at.oldest, self.offset + count - (self.capacity - self.keep))
        return Layout(used, last[1], oldest)

    def _places(self, count: int) -> list[tuple[int, int]]:
        return write_places(self._at.following, count, self.keep, self.capacity)

    def _write(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        after = self._after(count)
        all_keys, all_values = self._room(keys, values, after.used)
        start = 0
        for first, last in self._places(count):
            end = start + last - first
            write(all_keys, first, last, between(keys, start, end))
            write(all_values, first, last, between(values, start, end))
            start = end
        self.offset += count
        self._at = after
        return between(all_keys, 0, after.used), between(all_values, 0, after.used)

    def _roll(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        """Return all that a long chunk may see, and keep what later tokens may see."""
        if self.keys is not None and self.values is not None:
            keys = joined([*self._in_order(self.keys), keys])
            values = joined([*self._in_order(self.values), values])
        self.offset += count
        self._hold(keys, values)
        return keys, values

    def _room(self, keys: Stored, values: Stored, end: int) -> tuple[Stored, Stored]:
        """Return buffers with `end` slots at least, growing by blocks up to the bound."""
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > length(all_keys):
            capacity, used = min(rounded_up(end), self.capacity), self._at.used
            self.keys = all_keys = grown(all_keys, keys, used, capacity)
            self.values = all_values = grown(all_values, values, used, capacity)
        return all_keys, all_values

    def _in_order(self, stored: Stored) -> list[Stored]:
        """Return pieces with the tokens held, oldest first."""
        if not self._dropped:
            return [between(stored, 0, self.offset)]
        ring = in_order(
            stored, self._at.following, self.offset - self._at.oldest, self.keep, self.capacity
        )
        return [between(stored, 0, self.keep), *ring] if self.keep else ring

    def _hold(self, keys: Stored, values: Stored) -> None:
        """Copy the first and the latest of the tokens held, in order, so the rest can go."""
        self.keys, self.values = self._cut(keys), self._cut(values)
        used = length(self.keys)
        oldest = max(self.keep, self.offset - (used - self.keep))
        self._at = Layout(used, used, oldest)

    def _cut(self, ordered: Stored) -> Stored:
        surplus = length(ordered) - self.capacity
        if surplus <= 0:
            return each(mx.contiguous, ordered)
        latest = between(ordered, self.keep + surplus, length(ordered))
        if self.keep == 0:
            return each(mx.contiguous, latest)
        return joined([between(ordered, 0, self.keep), latest])

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        end = self.offset + length
        if end <= self.max_size and not self._dropped:
            return attention_mask(length, self.offset, window_size, return_array)
        check_window(window_size)
        if length == 1 and self.slack == 0:
            oldest = 0 if self.keep else end - self.max_size
            if window_size is None or end - oldest <= window_size:
                return None
        queries = mx.arange(self.offset, end)
        if self._fits(length):
            keys = self._positions(end, self._after(length))
        else:
            keys = mx.concatenate([self._positions_in_order(), queries])
        window = self.max_size - self.keep
        return window_mask(queries[:, None], keys, window, self.keep, window_size)

    def _positions(self, end: int, at: Layout) -> mx.array:
        slots = mx.arange(at.used)
        span = self.capacity - self.keep
        return slot_positions(slots, end, at.following, at.oldest, self.keep, span)

    def _positions_in_order(self) -> mx.array:
        first = mx.arange(min(self.keep, self.offset))
        return mx.concatenate([first, mx.arange(self._at.oldest, self.offset)])

    @property
    def state(self) -> Any:
        if self.keys is None or self.values is None or self.offset == 0:
            return None, None
        return between(self.keys, 0, self._at.used), between(self.values, 0, self._at.used)

    @state.setter
    def state(self, value: Any) -> None:
        """Replace the arrays by others of the same tokens, in the same slots."""
        self.keys, self.values = map(as_stored, value)

    @property
    def meta_state(self) -> tuple[str, ...]:
        items = [self.offset, self.keep, self.max_size, self._at.following]
        if self.slack:
            items += [self.slack, self._at.oldest]
        return tuple(map(str, items))

    def _restore(self, state: Any, offset: int, following: int, oldest: int | None = None) -> None:
        """Take the arrays and numbers of a state. Raises ValueError where they disagree.

        Without `oldest`, keys and values may hold more than `max_size` tokens in order,
        the latest last.
        """
        self.state = state
        self.offset = offset
        count = length(self.keys)
        used = min(offset, count)
        if oldest is None:
            oldest = max(self.keep, offset - (used - self.keep))
            slots = range(self.keep, used + 1) if offset > self.max_size else (offset,)
            fits = used >= min(offset, self.max_size) and following in slots
        else:
            slots = range(self.keep, count + 1) if oldest > self.keep else (offset,)
            held = range(max(offset - (self.capacity - self.keep), self.keep), offset + 1)
            fits = count <= self.capacity and following in slots
            fits = fits and (oldest in held if oldest > self.keep else used == offset)
            used = count
        if not fits:
            raise ValueError(
                f"offset {offset}, max_size {self.max_size} and next slot {following} "
                f"do not go with keys of {count} tokens"
            )
        self._at = Layout(used, following, oldest)
        if self.keys is not None and self.values is not None and used > self.capacity:
            self._hold(between(self.keys, 0, used), between(self.values, 0, used))

    def size(self) -> int:
        if not self._dropped:
            return self.offset
        return self.keep + self.offset - self._at.oldest

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)

    def is_trimmable(self) -> bool:
        """Tell whether no token has been dropped yet."""
        return not self._dropped

    @property
    def trimmable_tokens(self) -> int:
        if not self._dropped:
            return self.offset
        return max(0, self.offset - (self.max_size - self.keep) - self._at.oldest)

    def trim(self, n: int) -> int:
        n = min(self.offset, number_of_tokens(n))
        if n > self.trimmable_tokens:
            raise CacheNotTrimmable(
                f"{type(self).__name__} has dropped tokens (max_size={self.max_size}, "
                f"offset={self.offset}, slack={self.slack}), so it cannot take {n} back"
            )
        self.offset -= n
        if not self._dropped:
            self._at = Layout(self.offset, self.offset, self.keep)
        elif n:
            span = self.capacity - self.keep
            following = (self._at.following - self.keep - n) % span + self.keep
            self._at = self._at._replace(following=following)
        return n

    def held(self, stored: Stored | None) -> Stored | None:
        """Return the tokens held of keys or values, oldest first."""
        return joined(self._in_order(stored)) if stored is not None and self.offset else None

    def checkpoint(self, tokens: int = 8) -> None:
        """From now on, hold what is needed to take up to `tokens` tokens back at any time."""
        check_bounds(self.max_size, self.keep, tokens)
        if tokens == self.slack:
            return
        keys, values = self.held(self.keys), self.held(self.values)
        self.slack = tokens
        if keys is not None and values is not None:
            self._hold(keys, values)

    def _bound(self, max_size: int) -> int:
        """Return the smaller bound; a window of the model's own has no sinks added."""
        if self.keep >= max_size:
            raise CacheNotBounded(f"max_size must be more than keep={self.keep}, not {max_size}")
        return min(self.max_size, max_size)


def check_bounds(max_size: int, keep: int, slack: int) -> None:
    if not 0 <= keep < max_size:
        raise ValueError(
            f"max_size must be more than keep and keep 0 or more, "
            f"not max_size={max_size} and keep={keep}"
        )
    if slack < 0:
        raise ValueError(f"the tokens that can be taken back must be 0 or more, not {slack}")


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
            cache.keys, cache.values = cache.pack(self.keys), cache.pack(self.values)
        cache.offset, cache._at = self.offset, self._at
        return cache

    def bounded(self, max_size: int, keep: int) -> "RotatingKVCache":
        """Return an empty cache of the smaller bound; a window of its own has no sinks added."""
        return RotatingKVCache(self._bound(max_size), keep=self.keep, slack=self.slack)
