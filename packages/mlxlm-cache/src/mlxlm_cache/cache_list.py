"""Several caches in one layer: of attention and a recurrence, of two kinds of attention."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, Capabilities, holds_keys, number_of_tokens
from mlxlm_cache.batch import per_row, together
from mlxlm_cache.errors import CacheNotMergeable, CacheNotTrimmable
from mlxlm_cache.layout import META_APART, combined, split
from mlxlm_cache.masks import Mask
from mlxlm_cache.registry import cache_class, file_name, register_cache

_WHERE_THERE = ("to_quantized", "bounded", "checkpoint")
"""Methods that the list has where one of its caches does; the others stay as they are."""


@register_cache("CacheList")
class CacheList(Cache):
    """`caches`, which the layer uses by index. One list serves a sequence as well as a batch."""

    def __init__(self, *caches: Cache) -> None:
        self.caches = list(caches)

    def __getitem__(self, index: int) -> Cache:
        return self.caches[index]

    def __iter__(self) -> Iterator[Cache]:
        return iter(self.caches)

    def __len__(self) -> int:
        return len(self.caches)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _WHERE_THERE and any(hasattr(c, name) for c in self.caches):
            return partial(self._each_that_can, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def _each_that_can(self, name: str, *arguments: Any, **options: Any) -> Self | None:
        made = [
            getattr(c, name)(*arguments, **options) if hasattr(c, name) else c for c in self.caches
        ]
        return None if name == "checkpoint" else type(self)(*made)

    def leaves(self) -> list[Cache]:
        return [leaf for c in self.caches for leaf in c.leaves()]

    @property
    def offset(self) -> Any:  # type: ignore[override]
        """The offset of the first cache that holds keys, or else of the first."""
        return self._leading().offset

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        """Return the mask of the cache whose offset is the list's."""
        return self._leading().make_mask(length, window_size=window_size, return_array=return_array)

    def _leading(self) -> Cache:
        return next((c for c in self.caches if holds_keys(c)), self.caches[0])

    @property
    def tokens_seen(self) -> int:
        return max((c.tokens_seen for c in self.caches), default=0)

    @property
    def checkpointed(self) -> int:
        return max((c.checkpointed for c in self.caches), default=0)

    def empty(self) -> bool:
        return all(c.empty() for c in self.caches)

    def size(self) -> int:
        return max((c.size() for c in self.caches), default=0)

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self.caches)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            trim=self.trimmable_tokens,
            quantize=hasattr(self, "to_quantized"),
            merge=all(c.capabilities.merge for c in self.caches),
            checkpoint=hasattr(self, "checkpoint"),
        )

    def _used(self) -> list[Cache]:
        return [c for c in self.caches if not c.empty()]

    def is_trimmable(self) -> bool:
        return all(c.is_trimmable() for c in self.caches)

    @property
    def trimmable_tokens(self) -> int:
        return min((c.trimmable_tokens for c in self._used()), default=0)

    def can_trim(self, n: int) -> bool:
        return all(c.can_trim(n) for c in self._used())

    def trim(self, n: int) -> int:
        """Take the same from every cache, or raise CacheNotTrimmable with none changed."""
        n = min(number_of_tokens(n), self.tokens_seen)
        used = self._used()
        for c in used:
            if not c.can_trim(n):
                raise CacheNotTrimmable(
                    f"{type(c).__name__} in a CacheList cannot take {n} tokens back"
                )
        for c in used:
            c.trim(n)
        return n

    def trim_rows(self, counts: Sequence[int]) -> list[int]:
        """Take each row's number of tokens back from every cache, or raise, as `trim` does."""
        before = [c.copy() for c in self.caches]
        taken: list[int] = []
        try:
            for c in self._used():
                taken = c.trim_rows(counts)  # type: ignore[attr-defined]
        except CacheNotTrimmable:
            self.caches = before
            raise
        return taken or per_row([0] * len(counts), len(counts), "counts")

    # Rows.

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        together(caches, cls)
        lists: list[Any] = list(caches)
        if len({len(one) for one in lists}) > 1:
            raise CacheNotMergeable("lists of different lengths cannot be rows of one batch")
        return cls(*(merged(column) for column in zip(*lists, strict=True)))

    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        """Announce padding in the chunks to come: see `Batch.prepare`."""
        for c in self._rows():
            c.prepare(left_padding=left_padding, lengths=lengths, right_padding=right_padding)

    def finalize(self) -> None:
        for c in self._rows():
            c.finalize()

    def filter(self, batch_indices: Iterable[int] | mx.array) -> None:
        """Keep the rows of these indices, in this order."""
        for c in self._rows():
            c.filter(batch_indices)

    def extend(self, other: "CacheList") -> None:
        """Add the rows of another list, which stays as it is."""
        for ours, theirs in zip(self._rows(), other.caches, strict=True):
            ours.extend(theirs)

    def extract(self, idx: int) -> Self:
        """Return a row as a list of its own."""
        return type(self)(*(c.extract(idx) for c in self._rows()))

    def _rows(self) -> list[Any]:
        return self.caches

    # State.

    @property
    def state(self) -> Any:
        """A pair for each cache: its state, with its numbers at the end, and its name."""
        return [(combined(c.state, _inside(c)), file_name(type(c))) for c in self.caches]

    @state.setter
    def state(self, value: Any) -> None:
        for c, (tree, _) in zip(self.caches, value, strict=True):
            c.state, _ = split(tree)

    @property
    def meta_state(self) -> tuple[str, ...]:
        """What has no place in the state: see `mlxlm_cache.layout`."""
        return (json.dumps([None if _inside(c) else c.meta_state for c in self.caches]),)

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        apart = json.loads(meta_state[0]) if meta_state else [None] * len(state)
        caches = []
        for (tree, name), meta in zip(state, apart, strict=True):
            own, inside = split(tree)
            caches.append(cache_class(name).from_state(own, tuple(meta or inside)))
        return cls(*caches)


def _inside(cache: Cache) -> tuple[str, ...]:
    return () if file_name(type(cache)) in META_APART else cache.meta_state


def merged(caches: Sequence[Any]) -> Cache:
    """Return the batch of one layer's caches, or raise CacheNotMergeable."""
    if not hasattr(caches[0], "merge"):
        raise CacheNotMergeable(
            f"{type(caches[0]).__name__} has no `merge`, so it cannot be part of a batch"
        )
    made: Cache = caches[0].merge(caches)
    return made
