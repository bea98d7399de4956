"""Several sequences in one cache, a row each, that come and go."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.errors import CacheNotMergeable, CacheNotTrimmable


class Batch(Cache):
    """What batch caches share. Counts of tokens are kept on the host: no call waits for the device.

    `offsets` has each row's tokens so far; below zero, how many padding tokens come before
    the row's first.
    """

    offsets: list[int]

    @property
    def rows(self) -> int:
        return len(self.offsets)

    @property
    def offset(self) -> mx.array:  # type: ignore[override]
        """Each row's next position, int32 (B,)."""
        return row_array(self.offsets)

    @property
    def tokens_seen(self) -> int:
        return max(0, *self.offsets) if self.offsets else 0

    def empty(self) -> bool:
        return self.tokens_seen == 0

    @classmethod
    @abstractmethod
    def merge(cls, caches: Sequence[Cache]) -> Self:
        """Return a batch with a row for each cache, of one sequence each; they stay as they are.

        Raises CacheNotMergeable where they do not go together.
        """

    @abstractmethod
    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        """Announce padding in the chunks to come.

        `left_padding` tokens of each row come before its first, in an empty batch.
        `right_padding` ones come after its last, up to `finalize`; `lengths` are the
        tokens of each row that are none.
        """

    @abstractmethod
    def finalize(self) -> None:
        """Forget the right padding that was announced, now that it has come."""

    @abstractmethod
    def filter(self, batch_indices: Iterable[int] | mx.array) -> None:
        """Keep the rows of these indices, in this order."""

    @abstractmethod
    def extend(self, other: Any) -> None:
        """Add the rows of another batch, which stays as it is."""

    @abstractmethod
    def extract(self, idx: int) -> Cache:
        """Return a row as a cache of its own."""

    @abstractmethod
    def row_limits(self) -> list[int]:
        """Return how many tokens can be taken back from each row now."""

    @abstractmethod
    def _take_back(self, counts: Sequence[int]) -> None: ...

    def trim(self, n: int) -> int:
        n = min(number_of_tokens(n), self.tokens_seen)
        self.trim_rows([n] * self.rows)
        return n

    def trim_rows(self, counts: Sequence[int]) -> list[int]:
        """Forget each row's latest tokens, or all where there are fewer; return how many.

        Raises CacheNotTrimmable, unchanged, where a row cannot.
        """
        counts = per_row(counts, self.rows, "counts")
        counts = [
            min(number_of_tokens(n), max(0, seen))
            for n, seen in zip(counts, self.offsets, strict=True)
        ]
        limits = self.row_limits()
        for i, (n, limit) in enumerate(zip(counts, limits, strict=True)):
            if n > limit:
                raise CacheNotTrimmable(
                    f"{type(self).__name__} has dropped tokens of row {i}, so it can take "
                    f"{limit} back there, not {n}"
                )
        self._take_back(counts)
        return counts

    @property
    def trimmable_tokens(self) -> int:
        pairs = list(zip(self.row_limits(), self.offsets, strict=True))
        short = [limit for limit, seen in pairs if limit < seen]
        return min(short) if short else self.tokens_seen

    def is_trimmable(self) -> bool:
        return self.trimmable_tokens == self.tokens_seen


@lru_cache(maxsize=64)
def _array(values: tuple[int, ...]) -> mx.array:
    return mx.array(values, dtype=mx.int32)


def row_array(values: Sequence[int]) -> mx.array:
    """Return int32 (B,); one array for all layers of a stack, which ask for the same."""
    return _array(tuple(values))


def column(values: Sequence[int]) -> mx.array:
    """Return int32 (B, 1), or (1, 1) where all are equal."""
    return row_array(values if not equal(values) else values[:1])[:, None]


def equal(values: Sequence[int]) -> bool:
    return values.count(values[0]) == len(values)


def per_row(values: Iterable[int] | mx.array, rows: int, name: str) -> list[int]:
    """Return one number for each row, or raise ValueError."""
    numbers = indices(values)
    if len(numbers) != rows:
        raise ValueError(f"{name} must have one number for each of {rows} rows, not {numbers}")
    return numbers


def indices(values: Iterable[int] | mx.array) -> list[int]:
    listed: Any = values.tolist() if isinstance(values, mx.array) else values
    return [int(v) for v in listed]


def chosen(values: Iterable[int] | mx.array, rows: int) -> list[int]:
    """Return row indices, or raise IndexError."""
    listed = indices(values)
    for i in listed:
        if not 0 <= i < rows:
            raise IndexError(f"a batch of {rows} rows has no row {i}")
    return listed


def together(caches: Sequence[Any], kind: type[Any], *settings: str) -> None:
    """Raise CacheNotMergeable unless all are of a kind, with the same settings."""
    if not caches:
        raise CacheNotMergeable("there is no cache to merge")
    for i, cache in enumerate(caches):
        if not isinstance(cache, kind):
            raise CacheNotMergeable(
                f"{type(cache).__name__} (cache {i}) cannot be a row of a batch with "
                f"{type(caches[0]).__name__}: batch them apart"
            )
        for name in settings:
            one, other = getattr(caches[0], name), getattr(cache, name)
            if one != other:
                raise CacheNotMergeable(
                    f"{type(cache).__name__} (cache {i}) has {name}={other}, and the first "
                    f"cache {one}: batch them apart"
                )
        keys = getattr(cache, "keys", None)
        if not isinstance(cache, Batch) and keys is not None:
            part = keys if isinstance(keys, mx.array) else keys[0]
            if part.shape[0] != 1:
                raise CacheNotMergeable(
                    f"{type(cache).__name__} (cache {i}) already holds {part.shape[0]} sequences"
                )
