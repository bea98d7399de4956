"""What every cache answers to."""

import copy
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import mlx.core as mx

from mlxlm_cache.errors import CacheNotTrimmable
from mlxlm_cache.masks import Mask, attention_mask

# Floating-point keys or values, (B, n_kv, L, D); or packed ones with scales and biases.
Packed = tuple[mx.array, mx.array, mx.array]
Fetched = tuple[mx.array | Packed, mx.array | Packed]


@dataclass(frozen=True)
class Capabilities:
    """What a cache can do.

    `trim` is how many of its latest tokens can be taken back now; the others say
    whether the class has `to_quantized`, `merge` (into a batch) and `checkpoint`.
    """

    trim: int
    quantize: bool
    merge: bool
    checkpoint: bool


class Cache(ABC):
    """What one layer remembers of the tokens seen so far.

    A subclass that stores keys and values defines `update_and_fetch`; one that stores
    recurrent state does not. A subclass that can do more has the method for it:
    `to_quantized(group_size, bits)` returns a quantized cache of the same tokens,
    `bounded(max_size, keep)` an empty cache that never holds more than `max_size`.
    `capabilities` says which are there.
    """

    offset: int = 0  # tokens seen so far: the position of the next one

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Fetched:
        """Append `keys` and `values`, (B, n_kv, L, D), and return what attention sees.

        The order of the tokens returned is the cache's own; the mask from `make_mask`,
        called before, agrees with it. What is returned holds until the next update.
        """
        raise TypeError(f"{type(self).__name__} holds no keys and values")

    @property
    @abstractmethod
    def state(self) -> Any:
        """The live contents: a tuple or list tree of arrays and None."""

    @state.setter
    @abstractmethod
    def state(self, value: Any) -> None: ...

    @property
    def meta_state(self) -> tuple[str, ...]:
        """What `from_state` needs beside the arrays."""
        return ()

    @classmethod
    @abstractmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild a cache. Raises ValueError where the parts disagree."""

    @abstractmethod
    def size(self) -> int:
        """Return how many tokens are held now."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes allocated, spare room included."""

    def empty(self) -> bool:
        return self.offset == 0

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        """Return the mask for the next `length` tokens; call it before the update.

        See `create_attention_mask`.
        """
        return attention_mask(length, self.offset, window_size, return_array)

    def is_trimmable(self) -> bool:
        """Tell whether every token held can be taken back now."""
        return False

    def trim(self, n: int) -> int:
        """Forget the latest `n` tokens, or all where there are fewer; return how many.

        Raises CacheNotTrimmable, unchanged, where they cannot be taken back.
        """
        if number_of_tokens(n) == 0:
            return 0
        raise CacheNotTrimmable(f"{type(self).__name__} cannot take tokens back")

    @property
    def trimmable_tokens(self) -> int:
        """How many of the latest tokens can be taken back now."""
        return self.tokens_seen if self.is_trimmable() else 0

    def can_trim(self, n: int) -> bool:
        """Tell whether the latest `n` tokens can be taken back now."""
        return n <= self.trimmable_tokens

    @property
    def checkpointed(self) -> int:
        """What `checkpoint` was told last: how many tokens can come back; 0 for none."""
        return 0

    @property
    def tokens_seen(self) -> int:
        """`offset` as a number: in a batch, that of its longest sequence."""
        return self.offset

    def leaves(self) -> list["Cache"]:
        """Return the caches that hold something: this one, or what it is made of."""
        return [self]

    def copy(self) -> Self:
        """Return an independent cache of the same tokens.

        The two share memory until one of them writes.
        """
        made = copy.copy(self)
        for name, value in vars(self).items():
            vars(made)[name] = _independent(value)
        return made

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            trim=self.trimmable_tokens,
            quantize=hasattr(self, "to_quantized"),
            merge=hasattr(self, "merge"),
            checkpoint=hasattr(self, "checkpoint"),
        )


def _independent(value: Any) -> Any:
    """Copy containers and array objects, not the data: writing to an array replaces it."""
    match value:
        case mx.array():
            return copy.copy(value)
        case Cache():
            return value.copy()
        case list() if set(map(type, value)) <= {int}:
            return value.copy()
        case tuple() | list() | deque():
            make: Any = getattr(value, "_make", type(value))  # a named tuple has _make
            return make(map(_independent, value))
        case dict():
            return {key: _independent(item) for key, item in value.items()}
    return value


def leaves(caches: Iterable[Cache]) -> list[Cache]:
    """Return the caches that hold something, those inside others among them."""
    return [leaf for cache in caches for leaf in cache.leaves()]


def holds_keys(cache: Cache) -> bool:
    """Tell whether a cache stores keys and values, which grow and can be quantized."""
    return type(cache).update_and_fetch is not Cache.update_and_fetch


def number_of_tokens(n: int) -> int:
    """Return `n`, a count of tokens to take back, or raise ValueError."""
    if n < 0:
        raise ValueError(f"cannot trim {n} tokens: the number must be 0 or more")
    return n
