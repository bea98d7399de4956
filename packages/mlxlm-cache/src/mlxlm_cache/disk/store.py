"""Prompt-cache files in one folder, found by tokens, bounded in bytes.

Several processes may use the folder. Files appear whole under a name that says what they
hold, and readers need no lock: a file that was opened stays readable. Writing and evicting
take turns, by a lock that the system takes back from a process that dies.
"""

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from threading import Lock

from mlxlm_cache.base import Cache, leaves
from mlxlm_cache.errors import CacheError, CacheNotTrimmable, PromptFileError, UnknownCache
from mlxlm_cache.files import draft_prompt_file, read_prompt_file
from mlxlm_cache.reuse import contract
from mlxlm_cache.reuse.trie import PromptTrie
from mlxlm_cache.sharing import SharingCache
from mlxlm_cache.tensorfile import Draft, read_header
from mlxlm_cache.writing import TEMPORARY, NotAFile, regular_file

_NAME = "prompt-{identity}-{tokens}.safetensors"
"""Only files named so are ever removed: the folder may hold others."""

_LOCK = ".lock"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """What a file holds: a cache of `tokens`, of which `trim` can be taken back."""

    path: Path
    identity: str
    tokens: tuple[int, ...]
    trim: int

    def stands_in_for(self, length: int) -> bool:
        """Tell whether it serves whoever wants its first `length` tokens."""
        return len(self.tokens) - length <= self.trim


class Store:
    """Files of at most `max_bytes` in all; the least recently used go first."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._known: dict[str, Stored] = {}  # by file name
        self._trie = PromptTrie()
        self._lock = Lock()

    def prepare(
        self, identity: str, tokens: Sequence[int], cache: Sequence[Cache]
    ) -> tuple[Stored, Draft]:
        """Return what `write` takes."""
        # Of what a file gives back: it holds no states to go back to.
        again = [type(c).from_state(c.state, c.meta_state) for c in cache if not c.empty()]
        trim = min((c.capabilities.trim for c in again), default=0)
        stored = Stored(self._path(identity, tokens), identity, tuple(tokens), trim)
        facts = {"identity": identity, "trim": str(trim)}
        return stored, draft_prompt_file(stored.path, cache, facts, tokens=tokens)

    def covers(self, identity: str, tokens: Sequence[int]) -> bool:
        """Tell whether a file serves whoever wants these tokens or goes on from them."""
        with self._lock:
            self._refresh(identity)
            result = self._trie.search(identity, tokens)
            if result.exact is not None:
                return True
            if result.longer is None or result.common_prefix < len(tokens):
                return False
            longer: Stored = self._trie.get(identity, result.longer)
            return longer.stands_in_for(len(tokens))

    def write(self, stored: Stored, draft: Draft) -> bool:
        """Make room, write, and remove the files that this one stands in for.

        Returns False where it exceeds the bound alone.
        """
        if draft.nbytes > self.max_bytes:
            log.info("%d bytes exceed the bound of %s alone", draft.nbytes, self.folder)
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._turn():
            for path in self.folder.glob(f"{TEMPORARY}*{_NAME.format(identity='*', tokens='*')}"):
                # Of a process that died: it is our turn to write.
                path.unlink(missing_ok=True)
            self._make_room(draft.nbytes)
            draft.write(stored.path)
        with self._lock:
            self._refresh(stored.identity)
            for length, prefix in self._trie.prefixes(stored.identity, stored.tokens):
                if stored.stands_in_for(length):
                    self._discard(prefix)
        return True

    def load(
        self, identity: str, tokens: Sequence[int], least: int
    ) -> tuple[list[Cache], int] | None:
        """Return a cache of as many first tokens as can be had, if `least` at least.

        What it holds is read from the file when it is first used.
        """
        tried: set[Path] = set()
        while (best := self._best(identity, tokens, least, tried)) is not None:
            stored, length = best
            cache = self._read(stored, length)
            if cache is not None:
                return cache, length
            tried.add(stored.path)
        return None

    def _best(
        self, identity: str, tokens: Sequence[int], least: int, tried: set[Path]
    ) -> tuple[Stored, int] | None:
        with self._lock:
            self._refresh(identity)
            for stored, _, length in self._trie.candidates(identity, tokens):
                usable = length >= least and stored.stands_in_for(length)
                if usable and stored.path not in tried:
                    return stored, length
        return None

    def _read(self, stored: Stored, length: int) -> list[Cache] | None:
        try:
            said = read_prompt_file(stored.path)
            if said.metadata.get("identity") != stored.identity:
                raise PromptFileError(f"{stored.path} is of another model")
            if said.tokens is None or tuple(said.tokens) != stored.tokens:
                raise PromptFileError(f"{stored.path} is of other tokens")
            contract.check_holds(said.cache, len(stored.tokens))
            contract.cut(said.cache, len(stored.tokens) - length, length)
            os.utime(stored.path)
        except (FileNotFoundError, NotAFile):  # evicted by another process, or replaced
            return None
        except (UnknownCache, CacheNotTrimmable) as error:  # no fault of the file
            log.warning("not used: %s", error)
            return None
        except CacheError as error:
            log.warning("removed: %s", error)
            with self._lock:
                self._discard(stored)
            return None
        for c in leaves(said.cache):
            if isinstance(c, SharingCache):
                c.compact()
        return said.cache

    def _refresh(self, identity: str) -> None:
        """Learn of the files of `identity` that have come and gone."""
        pattern = _NAME.format(identity=_hashed(identity, 16), tokens="?" * 32)
        names = {path.name for path in self.folder.glob(pattern)}
        for name, stored in list(self._known.items()):
            if stored.identity == identity and name not in names:
                self._forget(stored)
        for name in names - self._known.keys():
            try:
                stored = _described(self.folder / name)
            except (FileNotFoundError, NotAFile):
                continue
            except (PromptFileError, KeyError, ValueError) as error:
                log.warning("removed %s, which holds no prompt: %s", self.folder / name, error)
                (self.folder / name).unlink(missing_ok=True)
                continue
            if stored.identity == identity:
                self._known[name] = stored
                self._trie.add(identity, stored.tokens, stored)

    def _forget(self, stored: Stored) -> None:
        if self._known.pop(stored.path.name, None) is not None:
            self._trie.pop(stored.identity, stored.tokens)

    def _discard(self, stored: Stored) -> None:
        self._forget(stored)
        stored.path.unlink(missing_ok=True)

    def _make_room(self, nbytes: int) -> None:
        """Remove the least recently used files until `nbytes` more are within the bound."""
        files = []
        for path in self.folder.glob(_NAME.format(identity="?" * 16, tokens="?" * 32)):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            if S_ISREG(stat.st_mode):
                files.append((stat.st_mtime_ns, stat.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total + nbytes <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other process writes to the folder."""
        import fcntl  # not there on Windows, where the rest of the package may be of use

        with regular_file(self.folder / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, identity: str, tokens: Sequence[int]) -> Path:
        ids = _hashed(",".join(map(str, tokens)), 32)
        return self.folder / _NAME.format(identity=_hashed(identity, 16), tokens=ids)


def _hashed(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _described(path: Path) -> Stored:
    """Read what a file holds. Raises FileNotFoundError, PromptFileError, KeyError, ValueError."""
    facts = read_header(path, check=False).facts
    tokens = tuple(map(int, facts["0.mlxlm.tokens"].split(",")))
    return Stored(path, facts["0.identity"], tokens, int(facts["0.trim"]))
