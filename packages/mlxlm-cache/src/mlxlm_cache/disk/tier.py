"""Caches of prompts on disk, written in the background."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Self

from mlxlm_cache.base import Cache
from mlxlm_cache.disk.store import Store, Stored
from mlxlm_cache.reuse import contract
from mlxlm_cache.tensorfile import Draft

log = logging.getLogger(__name__)


class DiskPromptCache:
    """Caches of prompts in files of at most `max_bytes` in all, in a folder.

    They outlive the process, however it ends, and several processes may share the folder.
    Prompts of fewer than `min_tokens` are sooner computed again than read. A model is a
    string, a number, None or a tuple of these, and has to name whatever computes different
    keys and values: the weights and their revision, the adapter, settings of the cache.

    Insert and fetch in the thread that computes; writing happens in one of its own. While
    a cache waits for that (at most `pending` do), going on with it copies its buffers.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        max_bytes: int,
        *,
        min_tokens: int = 256,
        pending: int = 4,
    ) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be 0 or more, not {max_bytes}")
        if pending < 1:
            raise ValueError(f"pending must be 1 or more, not {pending}")
        self.min_tokens = min_tokens
        self.pending = pending
        self._store = Store(Path(folder), max_bytes)
        self._waiting: list[tuple[Stored, Draft]] = []
        self._writing: Stored | None = None
        self._thread: Thread | None = None
        self._closed = False
        self._changed = Condition()

    def insert_cache(
        self, model: Any, tokens: Sequence[int], prompt_cache: Sequence[Cache]
    ) -> bool:
        """Have a cache of exactly `tokens` written soon; the caller may go on with it.

        Returns False where there is no need. When too many wait, the oldest is given up.
        Raises CacheMismatch where the cache has not seen as many tokens, UnknownCache
        where it could not be loaded again.
        """
        identity = _identity(model)
        contract.check_holds(prompt_cache, len(tokens))
        if len(tokens) < self.min_tokens or self._store.covers(identity, tokens):
            return False
        with self._changed:
            if self._closed:
                raise RuntimeError("this DiskPromptCache is closed")
            ahead = [stored for stored, _ in self._waiting]
            ahead += [self._writing] if self._writing is not None else []
            if any(_covers(stored, identity, tuple(tokens)) for stored in ahead):
                return False
        stored, draft = self._store.prepare(identity, tokens, prompt_cache)
        with self._changed:
            self._waiting = [
                (other, its)
                for other, its in self._waiting
                if not _covers(stored, other.identity, other.tokens)
            ]
            while len(self._waiting) >= self.pending:
                given_up, _ = self._waiting.pop(0)
                log.info("%d tokens were not written: too many wait", len(given_up.tokens))
            self._waiting.append((stored, draft))
            if self._thread is None:
                self._thread = Thread(target=self._write_all, name="DiskPromptCache", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def fetch_nearest_cache(
        self, model: Any, tokens: Sequence[int], *, more_than: int = 0
    ) -> tuple[list[Cache] | None, list[int]]:
        """Return a cache of as many first tokens as can be had, and the remaining tokens.

        As `LRUPromptCache.fetch_nearest_cache`; one that is hardly longer than what the
        caller has, `more_than` tokens, is not worth reading.
        """
        tokens = list(tokens)
        least = more_than + max(1, self.min_tokens)
        found = self._store.load(_identity(model), tokens, least)
        return (None, tokens) if found is None else (found[0], tokens[found[1] :])

    def flush(self) -> None:
        """Wait until nothing waits to be written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and self._writing is None)

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write_all(self) -> None:
        while self._write_next():
            pass

    def _write_next(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return False
            stored, draft = self._waiting.pop(0)
            self._writing = stored
        try:
            self._store.write(stored, draft)
        except OSError as error:
            log.warning("%d tokens were not written to disk: %s", len(stored.tokens), error)
        finally:
            del draft  # and with it the hold on the arrays, before anyone is told
            with self._changed:
                self._writing = None
                self._changed.notify_all()
        return True


def _covers(stored: Stored, identity: str, tokens: tuple[int, ...]) -> bool:
    """Tell whether `stored` serves whoever wants these tokens or goes on from them."""
    return (
        stored.identity == identity
        and stored.tokens[: len(tokens)] == tokens
        and stored.stands_in_for(len(tokens))
    )


def _identity(model: Any) -> str:
    """Return the same text for the same model in every process."""
    parts = [model]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple | list):
            parts += part
        elif not isinstance(part, str | int | float | None):
            raise TypeError(
                f"on disk a model is named by strings, numbers, None or tuples of these, "
                f"not by {type(part).__name__}"
            )
    return json.dumps(model)
