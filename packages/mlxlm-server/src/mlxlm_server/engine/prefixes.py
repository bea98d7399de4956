"""Prefixes of earlier requests, which outlive the thread that computed them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

from mlxlm_cache import Cache, CacheError, DiskPromptCache, LRUPromptCache

from mlxlm_server.settings import ServerSettings

log = logging.getLogger(__name__)


class Prefixes:
    """The prompt caches of one model, in memory and on disk; one thread at a time has them."""

    def __init__(self, name: Any, settings: ServerSettings, max_bytes: int) -> None:
        self.name = name
        disk = None
        if settings.disk_cache is not None:
            disk = DiskPromptCache(settings.disk_cache, settings.disk_cache_bytes)
        self._disk = disk
        self.memory = LRUPromptCache(settings.prompt_cache_size, max_bytes, disk=disk)

    def lend(self) -> "Lease":
        return Lease(self)

    def close(self, patience: float) -> bool:
        """Write what waits for the disk, and stop; False where that takes longer."""
        if self._disk is None:
            return True
        # In a thread that ends with the process: whoever hangs may hold the disk's locks.
        closing = Thread(target=self._disk.close, name="close prefixes", daemon=True)
        closing.start()
        closing.join(patience)
        return not closing.is_alive()


class Lease:
    """What one thread has of `Prefixes`, until it is taken back from it."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self._lock = Lock()
        self._sound = True
        self._taken_back = False

    def fetch(self, tokens: Sequence[int]) -> tuple[list[Cache] | None, list[int]]:
        """Return a cache of as many first tokens as can be had, and the remaining tokens."""
        with self._using() as prefixes:
            if prefixes is None:
                return None, list(tokens)
            return prefixes.memory.fetch_nearest_cache(prefixes.name, tokens)

    def keep(self, tokens: Sequence[int], cache: Sequence[Cache], kind: Any) -> None:
        """Store what has seen the first of `tokens`; a warning where that can't be."""
        seen = max((layer.tokens_seen for layer in cache), default=0)
        tokens = list(tokens)[:seen]
        if not tokens:
            return
        try:
            with self._using() as prefixes:
                if prefixes is not None:
                    prefixes.memory.insert_cache(prefixes.name, tokens, cache, cache_type=kind)
        except CacheError as error:
            log.warning("a prefix of %d tokens is not kept: %s", len(tokens), error)

    def take_back(self) -> bool:
        """Leave the thread without. False where it is at them now, or failed at them.

        Then nobody else may have them. Never waits: the thread may hang.
        """
        self._taken_back = True
        if not self._lock.acquire(blocking=False):
            return False
        self._lock.release()
        return self._sound

    @contextmanager
    def _using(self) -> Iterator[Prefixes | None]:
        with self._lock:
            if self._taken_back:
                yield None
                return
            self._sound = False
            try:
                yield self._prefixes
            except CacheError:  # raised before anything is changed
                self._sound = True
                raise
            self._sound = True
