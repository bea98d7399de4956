"""Copies that share their buffers, so that a copy costs nothing until both go their own way.

Copies hold the same arrays as objects: what one of them writes in place, or moves to larger
buffers, the others have too. So a cache writes only to slots that no other one uses, and
moves to buffers of its own where one does (copy on write). Of several copies, the first to
go on does so in place; a copy that goes on from the end of the longest always does.

Caches that share are for one thread at a time.
"""

import weakref
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, Self

import mlx.core as mx

from mlxlm_cache.base import Cache
from mlxlm_cache.blocks import rounded_up
from mlxlm_cache.parts import Stored, between, each, enlarged, length, write


@dataclass
class _Family:
    """Caches copied from one another. Those with the same `keys` still share."""

    members: "tuple[weakref.ref[SharingCache[Any]], ...]"


_joining = Lock()


class SharingCache(Cache, Generic[Stored]):
    """A cache that keeps keys and values in slots of buffers, (B, n_kv, slots, D)."""

    keys: Stored | None
    values: Stored | None
    _family: _Family | None = None

    _spare = 1
    """Slots that grown buffers have free at least: a token always follows a prompt. Not worth
    it where there is little to copy then."""

    def used(self) -> int:
        """Return the number of slots, from the first, that hold something of this cache."""
        raise NotImplementedError

    def copy(self) -> Self:
        made = super().copy()
        made.keys, made.values = self.keys, self.values
        with _joining:
            family = self._family or _Family((weakref.ref(self),))
            alive = [member for member in family.members if member() is not None]
            family.members = (*alive, weakref.ref(made))
            self._family = made._family = family
        return made

    def sharers(self) -> "list[SharingCache[Stored]]":
        """Return the other caches that use these buffers."""
        if self._family is None or self.keys is None:
            return []
        members = (member() for member in self._family.members)
        return [c for c in members if c is not None and c is not self and c.keys is self.keys]

    def put(
        self, keys: Stored, values: Stored, start: int, *, used: int, most: int | None = None
    ) -> tuple[Stored, Stored]:
        """Write to the slots from `start` on, and return the buffers.

        A class that stores keys and values in another way must not write in place.
        `used` slots hold something of this cache now. Buffers grow by blocks, up to `most`
        slots.
        """
        all_keys, all_values, sharers = self.keys, self.values, self.sharers()
        end = start + length(keys)
        alone = all(cache.used() <= start for cache in sharers)
        if alone and all_keys is not None and all_values is not None and end <= length(all_keys):
            write(all_keys, start, end, keys)
            write(all_values, start, end, values)
            return all_keys, all_values
        capacity = rounded_up(max(end, used) + self._spare)
        if most is not None:
            capacity = min(capacity, most)
        all_keys = enlarged(all_keys, keys, start, used, capacity)
        all_values = enlarged(all_values, values, start, used, capacity)
        for cache in [self, *sharers] if alone else [self]:
            cache.keys, cache.values = all_keys, all_values
        return all_keys, all_values

    def compact(self) -> None:
        """Give back the room that neither this cache nor a sharer uses, down to one block."""
        caches = [self, *self.sharers()]
        slots = rounded_up(max(cache.used() for cache in caches))
        if self.keys is None or self.values is None or slots >= length(self.keys):
            return
        all_keys, all_values = (
            each(mx.contiguous, between(stored, 0, slots)) for stored in (self.keys, self.values)
        )
        for cache in caches:
            cache.keys, cache.values = all_keys, all_values
