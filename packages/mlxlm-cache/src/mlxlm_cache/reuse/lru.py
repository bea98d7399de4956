"""Caches of prompts in memory, found by the tokens they are of."""

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import RLock
from typing import Any, Literal

import mlx.core as mx

from mlxlm_cache.base import Cache, leaves
from mlxlm_cache.disk.tier import DiskPromptCache
from mlxlm_cache.errors import CacheError
from mlxlm_cache.prompt import trim_prompt_cache
from mlxlm_cache.reuse import contract
from mlxlm_cache.reuse.bound import default_bound
from mlxlm_cache.reuse.trie import PromptTrie
from mlxlm_cache.sharing import SharingCache

CacheType = Literal["assistant", "user", "system"]

ORDER: tuple[CacheType, ...] = ("assistant", "user", "system")
"""The order in which types are evicted: the longest-lived prefixes last."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Entry:
    model: Any
    tokens: tuple[int, ...]
    cache: list[Cache]
    cache_type: CacheType


class LRUPromptCache:
    """The caches of at most `max_size` prompts, in at most `max_bytes` bytes.

    Without `max_bytes` the bound is half of the memory that is free when this is made:
    make it after the model is loaded. A model is any hashable key; it must tell apart
    whatever computes different keys and values (weights, adapter, settings of the cache).

    What is stored and what is fetched are copies that share memory with the caller's
    caches. Each belongs to its holder alone: an entry that is evicted, or gone on from
    by several at once, takes nothing from anyone. With `disk`, entries are written there
    too, and found there. The methods may be called from several threads; arrays are for
    one of them.
    """

    def __init__(
        self,
        max_size: int = 10,
        max_bytes: int | None = None,
        *,
        disk: DiskPromptCache | None = None,
    ) -> None:
        for name, value in (("max_size", max_size), ("max_bytes", max_bytes)):
            if value is not None and value < 0:
                raise ValueError(f"{name} must be 0 or more, not {value}")
        self.max_size = max_size
        self.max_bytes = default_bound() if max_bytes is None else max_bytes
        self._disk = disk
        self._trie = PromptTrie()
        # Entries of each type, the least recently used first.
        self._recent: dict[CacheType, OrderedDict[int, _Entry]] = {t: OrderedDict() for t in ORDER}
        self._lock = RLock()

    def __len__(self) -> int:
        return sum(map(len, self._recent.values()))

    @property
    def nbytes(self) -> int:
        """The bytes held, spare room included; what entries share counts once."""
        with self._lock:
            return contract.nbytes(entry.cache for entry in self._entries())

    def stats_by_type(self) -> dict[str, dict[str, int]]:
        """Return {type: {"n_sequences", "n_bytes"}}; shared bytes belong to the longest-lived."""
        with self._lock:
            counted: dict[int, mx.array] = {}
            stats = {}
            for cache_type in reversed(ORDER):
                entries = self._recent[cache_type].values()
                new = contract.arrays(entry.cache for entry in entries)
                n_bytes = sum(a.nbytes for key, a in new.items() if key not in counted)
                stats[cache_type] = {"n_sequences": len(entries), "n_bytes": n_bytes}
                counted |= new
            return {cache_type: stats[cache_type] for cache_type in ORDER}

    def fetch_nearest_cache(
        self, model: Any, tokens: Sequence[int]
    ) -> tuple[list[Cache] | None, list[int]]:
        """Return a cache of as many first tokens as can be had, and the remaining tokens.

        There always remains one token at least, so that there is something to compute
        logits from. The cache is None, and all tokens remain, where nothing matches.
        """
        tokens = list(tokens)
        if self._disk is not None:
            loaded = self._load(model, tokens, self._disk)
            if loaded is not None:
                return loaded
        with self._lock:
            while found := self._nearest(model, tokens):
                entry, length = found
                cache = contract.copied(entry.cache)
                surplus = len(entry.tokens) - length
                try:
                    contract.cut(cache, surplus, length)
                except CacheError as error:
                    log.warning("dropped %d tokens: %s", len(entry.tokens), error)
                    self._remove(entry)
                    continue
                self._recent[entry.cache_type].move_to_end(id(entry))
                if 0 < surplus <= max(1, length // 16):
                    self._shorten(entry, length)
                return cache, tokens[length:]
        return None, tokens

    def insert_cache(
        self,
        model: Any,
        tokens: Sequence[int],
        prompt_cache: Sequence[Cache],
        *,
        cache_type: CacheType = "assistant",
    ) -> bool:
        """Store a cache of exactly `tokens`; the caller may go on with it.

        Entries that this one can stand in for are dropped, and the least recently used
        ones while a bound is exceeded. Returns False, and stores nothing, where it alone
        exceeds one. Raises CacheMismatch where the cache has not seen as many tokens.
        """
        if cache_type not in ORDER:
            raise ValueError(f"cache_type must be one of {ORDER}, not {cache_type!r}")
        key = tuple(tokens)
        if not key:
            raise ValueError("tokens must not be empty: there is nothing to find a cache by")
        contract.check_holds(prompt_cache, len(key))
        entry = _Entry(model, key, contract.copied(prompt_cache), cache_type)
        mx.eval(list(contract.arrays(entry.cache).values()))
        if self._disk is not None:
            self._disk.insert_cache(model, key, prompt_cache)
        return self._store(entry)

    def trim_to(self, *, n_sequences: int | None = None, n_bytes: int | None = None) -> None:
        """Evict until there are no more entries, or bytes, than that."""
        with self._lock:
            moved = self._evict(
                len(self) if n_sequences is None else max(0, n_sequences),
                self.nbytes if n_bytes is None else max(0, n_bytes),
            )
        mx.eval(moved)

    def reserve(self, nbytes: int) -> bool:
        """Evict until `nbytes` more would stay within the bound: before they are allocated.

        Returns False where even an empty cache would not make the room.
        """
        before = self.nbytes
        self.trim_to(n_bytes=self.max_bytes - nbytes)
        if self.nbytes < before:
            mx.clear_cache()  # else MLX keeps what was freed, in sizes that nobody needs
        return nbytes <= self.max_bytes

    def clear(self) -> None:
        self.trim_to(n_sequences=0)

    def _load(
        self, model: Any, tokens: list[int], disk: DiskPromptCache
    ) -> tuple[list[Cache], list[int]] | None:
        """Fetch from the disk, if it has more of these tokens, and keep a copy."""
        with self._lock:
            found = self._nearest(model, tokens)
        have = found[1] if found else 0
        cache, rest = disk.fetch_nearest_cache(model, tokens, more_than=have)
        if cache is None:
            return None
        key = tuple(tokens[: len(tokens) - len(rest)])
        entry = _Entry(model, key, contract.copied(cache), ORDER[0])
        mx.eval(list(contract.arrays(entry.cache).values()))  # another thread may go on with it
        self._store(entry)
        return cache, rest

    def _store(self, entry: _Entry) -> bool:
        """Add an entry, unless it exceeds the bounds alone, and evict others."""
        size = contract.nbytes(entry.cache)
        if self.max_size == 0 or size > self.max_bytes:
            log.info("%d tokens (%d bytes) exceed the bound alone", len(entry.tokens), size)
            return False
        with self._lock:
            self._add(entry)
            moved = self._evict(self.max_size, self.max_bytes)
        mx.eval(moved)
        return True

    def _nearest(self, model: Any, tokens: list[int]) -> tuple[_Entry, int] | None:
        """Return the entry that can serve the most tokens, and how many."""
        for entry, stored, length in self._trie.candidates(model, tokens):
            if contract.can_go_back(entry.cache, stored - length):
                return entry, length
        return None

    def _shorten(self, entry: _Entry, length: int) -> None:
        """Give up the few latest tokens of an entry.

        So the cache just fetched can go on in place: copying the buffers would cost more
        than computing these tokens again.
        """
        self._remove(entry)
        trim_prompt_cache(entry.cache, len(entry.tokens) - length)
        entry.tokens = entry.tokens[:length]
        self._place(entry)

    def _add(self, entry: _Entry) -> None:
        """Store an entry in place of those that it can stand in for."""
        rank = ORDER.index
        for length, other in self._trie.prefixes(entry.model, entry.tokens):
            lives_longer = rank(other.cache_type) > rank(entry.cache_type)
            surplus = len(entry.tokens) - length
            if not lives_longer and contract.can_go_back(entry.cache, surplus):
                self._remove(other)
        self._place(entry)

    def _place(self, entry: _Entry) -> None:
        """Put an entry in place of the one with the same tokens, if any, as the latest used."""
        other = self._trie.add(entry.model, entry.tokens, entry)
        if other is not None:
            del self._recent[other.cache_type][id(other)]
            entry.cache_type = max(entry.cache_type, other.cache_type, key=ORDER.index)
        self._recent[entry.cache_type][id(entry)] = entry

    def _evict(self, n_sequences: int, n_bytes: int) -> list[mx.array]:
        """Drop entries; return arrays to evaluate, that take less room for those left."""
        moved: dict[int, mx.array] = {}
        while len(self) > n_sequences or (len(self) and self.nbytes > n_bytes):
            entry = self._least_wanted()
            self._remove(entry)
            log.debug("evicted %d tokens (%s)", len(entry.tokens), entry.cache_type)
            before = contract.arrays(e.cache for e in self._entries())
            del entry
            self._compact()
            after = contract.arrays(e.cache for e in self._entries())
            moved |= {key: array for key, array in after.items() if key not in before}
        return list(moved.values())

    def _compact(self) -> None:
        """Free what entries left behind in buffers that shorter ones share."""
        caches = leaves(c for entry in self._entries() for c in entry.cache)
        ours = set(map(id, caches))
        for c in caches:
            if isinstance(c, SharingCache) and all(id(other) in ours for other in c.sharers()):
                c.compact()

    def _least_wanted(self) -> _Entry:
        """Return the least recently used entry of the first type with as many as the next."""
        sizes = {cache_type: len(self._recent[cache_type]) for cache_type in ORDER}
        wanted = ORDER[-1]
        for cache_type, following in pairwise(ORDER):
            if sizes[cache_type] and sizes[cache_type] >= sizes[following]:
                wanted = cache_type
                break
        return next(iter(self._recent[wanted].values()))

    def _remove(self, entry: _Entry) -> None:
        self._trie.pop(entry.model, entry.tokens)
        del self._recent[entry.cache_type][id(entry)]

    def _entries(self) -> Iterator[_Entry]:
        return (entry for entries in self._recent.values() for entry in entries.values())
