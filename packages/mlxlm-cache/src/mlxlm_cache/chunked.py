"""Attention in chunks (Llama 4): a token sees those of its own chunk, up to itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import mlx.core as mx

from mlxlm_cache.base import Cache, number_of_tokens
from mlxlm_cache.blocks import rounded_up
from mlxlm_cache.errors import CacheNotBounded, CacheNotTrimmable
from mlxlm_cache.kv import GrowingCache, State
from mlxlm_cache.masks import Mask, attention_mask, check_window, visible
from mlxlm_cache.parts import between, each, length
from mlxlm_cache.registry import register_cache

if TYPE_CHECKING:
    from mlxlm_cache.batch_chunked import BatchChunkedKVCache


@register_cache("ChunkedKVCache")
class ChunkedKVCache(GrowingCache[mx.array]):
    """The latest `chunk_size` tokens at least, and not many more.

    Position p sees positions p // chunk_size * chunk_size up to p. Tokens can be taken back
    while the chunk before them is still whole; `slack` as many more are held, so that as
    many can be taken back at any time.
    """

    _spare = 0

    def __init__(self, chunk_size: int, slack: int = 0) -> None:
        check_chunk_size(chunk_size, slack)
        super().__init__()
        self.chunk_size = chunk_size
        self.slack = slack
        self._first = 0  # the position in slot 0

    def pack(self, array: mx.array) -> mx.array:
        return array

    @property
    def start_position(self) -> int:
        """The position of the first key that the next update returns."""
        return self.offset // self.chunk_size * self.chunk_size

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        start = self.start_position
        if self.size() + keys.shape[2] > length(self.keys):
            self._forget_front(copy=False)  # the buffers that follow are new ones
        first = self._first
        position, self.offset = self.offset, self.size()
        all_keys, all_values = super().update_and_fetch(keys, values)
        end = self.offset
        self.offset = position + keys.shape[2]
        fetched = between(all_keys, start - first, end), between(all_values, start - first, end)
        self.maybe_trim_front()
        return fetched

    def maybe_trim_front(self) -> None:
        """Forget what came before the latest `chunk_size` tokens and the slack, if it is as much.

        Updates do so by themselves.
        """
        if self.size() > most_slots(self.chunk_size + self.slack):
            self._forget_front()

    def _forget_front(self, *, copy: bool = True) -> None:
        """Forget what came before, and with `copy`, so that its memory is free."""
        surplus, end = self.size() - self.chunk_size - self.slack, self.size()
        if surplus <= 0 or self.keys is None or self.values is None:
            return
        self.keys, self.values = (
            each(mx.contiguous, part) if copy else part
            for part in (between(self.keys, surplus, end), between(self.values, surplus, end))
        )
        self._first += surplus

    def make_mask(
        self, length: int, *, window_size: int | None = None, return_array: bool = False
    ) -> Mask:
        start, end = self.start_position, self.offset + length
        if end <= start + self.chunk_size:
            return attention_mask(length, self.offset - start, window_size, return_array)
        check_window(window_size)
        queries, keys = mx.arange(self.offset, end)[:, None], mx.arange(start, end)
        same = queries // self.chunk_size == keys // self.chunk_size
        return same & visible(queries, keys, window_size)

    def size(self) -> int:
        return self.offset - self._first

    def used(self) -> int:
        return self.size()

    def is_trimmable(self) -> bool:
        """Tell whether nothing has been forgotten yet."""
        return self._first == 0

    @property
    def trimmable_tokens(self) -> int:
        return reach(self.offset, self._first, self.chunk_size)

    def trim(self, n: int) -> int:
        n = min(self.offset, number_of_tokens(n))
        if n > self.trimmable_tokens:
            raise CacheNotTrimmable(
                f"ChunkedKVCache holds positions {self._first} to {self.offset - 1}, too few to "
                f"take {n} back: the chunk of the position before would not be whole"
            )
        self.offset -= n
        return n

    @property
    def checkpointed(self) -> int:
        return self.slack

    def checkpoint(self, tokens: int = 8) -> None:
        """From now on, hold what is needed to take up to `tokens` tokens back at any time."""
        check_chunk_size(self.chunk_size, tokens)
        self.slack = tokens

    @property
    def state(self) -> State:
        if self.keys is None or self.values is None or self.size() == 0:
            return None, None
        return between(self.keys, 0, self.size()), between(self.values, 0, self.size())

    @state.setter
    def state(self, value: State) -> None:
        """Replace the arrays by others of the same tokens."""
        self.keys, self.values = value
        if length(self.keys) < self.size():
            raise ValueError(f"{self.size()} tokens, but keys of {length(self.keys)}")

    @property
    def meta_state(self) -> tuple[str, ...]:
        numbers = [self.offset, self.chunk_size, self._first]
        return tuple(map(str, numbers + [self.slack] if self.slack else numbers))

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from keys, values and (offset, chunk size, position of the first key, slack)."""
        offset, chunk_size, first, *slack = map(int, meta_state)
        cache = cls(chunk_size, *slack)
        if not 0 <= first <= offset // chunk_size * chunk_size:
            raise ValueError(f"keys from position {first} on do not hold the chunk of {offset}")
        cache.offset, cache._first = offset, first
        cache.state = state
        return cache

    @classmethod
    def merge(cls, caches: Sequence[Cache]) -> "BatchChunkedKVCache":
        from mlxlm_cache.batch_chunked import BatchChunkedKVCache

        return BatchChunkedKVCache.merge(caches)

    def bounded(self, max_size: int, keep: int) -> "ChunkedKVCache":
        """Return an empty cache of the same chunks, or raise CacheNotBounded."""
        if self.chunk_size > max_size:
            raise CacheNotBounded(f"chunks of {self.chunk_size} tokens do not fit in {max_size}")
        return ChunkedKVCache(self.chunk_size, self.slack)


def check_chunk_size(chunk_size: int, slack: int) -> None:
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be 1 or more, not {chunk_size}")
    if slack < 0:
        raise ValueError(f"the tokens that can be taken back must be 0 or more, not {slack}")


def most_slots(tokens: int) -> int:
    """Return how many slots may be in use for the sake of `tokens`.

    Until there are as many that are not wanted, it is cheaper to write on: the front is
    forgotten when the buffers are full, and something has to be copied anyway.
    """
    return max(2 * tokens, rounded_up(rounded_up(tokens) + 1))


def reach(offset: int, first: int, chunk_size: int) -> int:
    """Return how many tokens can be taken back so that the chunk of the last is whole."""
    if first == 0:
        return offset
    return max(0, offset - -(-first // chunk_size) * chunk_size)
