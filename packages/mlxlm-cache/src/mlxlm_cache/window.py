"""A cache of bounded memory: the first tokens and a window of the latest ones.

The window with pinned first tokens ("attention sinks") follows Xiao et al.,
Efficient Streaming Language Models with Attention Sinks, 2023 (arXiv 2309.17453).
"""

from typing import Any, Generic, NamedTuple

import mlx.core as mx

from mlxlm_cache.base import number_of_tokens
from mlxlm_cache.errors import CacheNotBounded, CacheNotTrimmable
from mlxlm_cache.masks import Mask, attention_mask, check_window
from mlxlm_cache.parts import (
    Stored,
    allocated,
    as_stored,
    between,
    each,
    joined,
    length,
    split,
    write,
)
from mlxlm_cache.ring import in_order, slot_positions, window_mask, write_places
from mlxlm_cache.sharing import SharingCache


class Layout(NamedTuple):
    """The slots in use, the slot after the latest token, the lowest position in the ring."""

    used: int
    following: int
    oldest: int


class RotatingCache(SharingCache[Stored], Generic[Stored]):
    """The first `keep` tokens and the latest ones, `max_size` in all.

    The token at position p sees the first `keep` positions and the latest
    `max_size - keep` up to itself, however the tokens came: one by one or in chunks.
    What a chunk pushes out, of the size of the cache at most, is freed with the next token.
    `slack` more tokens are held, unseen, so that as many can be taken back at any time.
    """

    _spare = 0

    def __init__(self, max_size: int, keep: int = 0, slack: int = 0) -> None:
        check_bounds(max_size, keep, slack)
        self.max_size = max_size
        self.keep = keep
        self.slack = slack
        self.keys: Stored | None = None
        self.values: Stored | None = None
        self.offset = 0
        self._at = Layout(used=0, following=0, oldest=keep)
        self._front = 0  # slots before all these, of tokens dropped

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
        if count == 1 and self._full and self._family is None:
            return self._overwrite(self.pack(keys), self.pack(values))
        if self._fits(count):
            self._settle()
            return self._write(self.pack(keys), self.pack(values), count)
        return self._roll(self.pack(keys), self.pack(values), count)

    @property
    def _full(self) -> bool:
        return self._at.used == self.capacity == length(self.keys)

    def _overwrite(self, keys: Stored, values: Stored) -> tuple[Stored, Stored]:
        """Do what `_write` does in a long decode, a single token in a full ring, in less time."""
        _, following, oldest = self._at
        slot = following if following < self.capacity else self.keep
        all_keys: Any = self.keys
        all_values: Any = self.values
        write(all_keys, slot, slot + 1, keys)
        write(all_values, slot, slot + 1, values)
        self.offset += 1
        oldest = max(oldest, self.offset - self.capacity + self.keep)
        self._at = Layout(self.capacity, slot + 1, oldest)
        return all_keys, all_values

    def _fits(self, count: int) -> bool:
        """Tell whether tokens can be written in place, over none that they may see."""
        return count <= self.slack + 1 or self.offset + count <= self.capacity

    def _after(self, count: int, places: list[tuple[int, int]]) -> Layout:
        """Return the layout after `count` tokens are written in place."""
        following = places[-1][1]
        used = self.capacity if len(places) > 1 else max(self._at.used, following)
        oldest = max(self._at.oldest, self.offset + count - (self.capacity - self.keep))
        return Layout(used, following, oldest)

    def _places(self, count: int) -> list[tuple[int, int]]:
        return write_places(self._at.following, count, self.keep, self.capacity)

    def _write(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        places = self._places(count)
        after = self._after(count, places)
        used, start = self._at.used, 0
        for first, last in places:
            end = start + last - first
            part = (keys, values)
            if len(places) > 1:
                part = between(keys, start, end), between(values, start, end)
            all_keys, all_values = self.put(*part, first, used=used, most=self.capacity)
            used, start = max(used, last), end
        self.offset += count
        self._at = after
        if after.used == length(all_keys):
            return all_keys, all_values
        return between(all_keys, 0, after.used), between(all_values, 0, after.used)

    def _roll(self, keys: Stored, values: Stored, count: int) -> tuple[Stored, Stored]:
        """Return all that a long chunk may see, and keep what later tokens may see."""
        front = self._next_front(count)
        if self.keys is not None and self.values is not None:
            keys = joined(self._followed(self.keys, keys, front))
            values = joined(self._followed(self.values, values, front))
        self.offset += count
        if front:
            self.keys, self.values, self._front = keys, values, front
            oldest = self.offset - (self.capacity - self.keep)
            self._at = Layout(self.capacity, self.capacity, oldest)
        else:
            self._hold(keys, values)
        return keys, values

    def _next_front(self, count: int) -> int:
        """Return how many tokens are dropped after a long chunk, if they may stay where they are.

        Copying the others would cost as much as the chunk: that waits until a token comes
        that is written in place. Not where it is most of the buffer that could be freed.
        """
        surplus = self.size() + count - self.capacity
        if self.keys is None or self.offset < self.keep or not 0 < surplus <= self.capacity:
            return 0
        return surplus

    def _followed(self, stored: Stored, new: Stored, front: int) -> list[Stored]:
        """Return pieces with the tokens held, then `new`; those in front are to be dropped."""
        first, ring = self._in_order(stored)
        before, after = split([*ring, new], front)
        return [*before, *first, *after]

    def _in_order(self, stored: Stored) -> tuple[list[Stored], list[Stored]]:
        """Return pieces with the first tokens held, and with those in the ring, oldest first."""
        front, first = self._front, min(self.keep, self.offset)
        held = max(0, self.offset - self._at.oldest)
        ring = in_order(stored, self._at.following, held, self.keep, self.capacity, front)
        return [between(stored, front, front + first)] if first else [], ring

    def _live(self, stored: Stored) -> Stored:
        """Return the slots in use."""
        return between(stored, self._front, self._front + self._at.used)

    def _settle(self) -> None:
        """Free what is before the slots in use."""
        if self._front and self.keys is not None and self.values is not None:
            self.keys = each(mx.contiguous, self._live(self.keys))
            self.values = each(mx.contiguous, self._live(self.values))
        self._front = 0

    def _hold(self, keys: Stored, values: Stored) -> None:
        """Copy the first and the latest of the tokens held, in order, so the rest can go."""
        self.keys, self.values = self._cut(keys), self._cut(values)
        used = length(self.keys)
        oldest = max(self.keep, self.offset - (used - self.keep))
        self._at = Layout(used, used, oldest)
        self._front = 0

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
            keys = self._positions(end, self._after(length, self._places(length)))
        else:
            keys = self._positions_in_order(end, self._next_front(length))
        window = self.max_size - self.keep
        return window_mask(queries[:, None], keys, window, self.keep, window_size)

    def _positions(self, end: int, at: Layout) -> mx.array:
        slots = mx.arange(at.used)
        span = self.capacity - self.keep
        return slot_positions(slots, end, at.following, at.oldest, self.keep, span)

    def _positions_in_order(self, end: int, front: int) -> mx.array:
        first = mx.arange(min(self.keep, self.offset))
        start = min(self._at.oldest, self.offset)
        before, after = mx.arange(start, start + front), mx.arange(start + front, end)
        return mx.concatenate([before, first, after])

    @property
    def state(self) -> Any:
        if self.keys is None or self.values is None or self.offset == 0:
            return None, None
        return self._live(self.keys), self._live(self.values)

    @state.setter
    def state(self, value: Any) -> None:
        """Replace the arrays by others of the same tokens, in the same slots."""
        self.keys, self.values = map(as_stored, value)
        self._front = 0

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

    def used(self) -> int:
        return self._front + self._at.used

    def compact(self) -> None:
        if not self.sharers():
            self._settle()
        super().compact()

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
        if stored is None or self.offset == 0:
            return None
        first, ring = self._in_order(stored)
        return joined([*first, *ring])

    @property
    def checkpointed(self) -> int:
        return self.slack

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
