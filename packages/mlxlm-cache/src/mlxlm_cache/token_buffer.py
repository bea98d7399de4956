"""The token ids of a sequence, for what looks at all of them at each step."""

from collections.abc import Sequence

import mlx.core as mx

from mlxlm_cache.base import number_of_tokens
from mlxlm_cache.blocks import rounded_up


class TokenBuffer:
    """Int32 ids that are appended to in place. Not a cache of a layer."""

    def __init__(self, tokens: Sequence[int] | mx.array | None = None) -> None:
        self._buffer: mx.array | None = None
        self._size = 0
        if tokens is not None:
            self.update_and_fetch(tokens)

    def update_and_fetch(self, tokens: Sequence[int] | mx.array) -> mx.array:
        """Append `tokens`, (n,), and return all so far, int32 (size,)."""
        new = tokens if isinstance(tokens, mx.array) else mx.array(list(tokens), dtype=mx.int32)
        end = self._size + new.size
        if self._buffer is None or end > self._buffer.size:
            spare = mx.zeros((rounded_up(end) - self._size,), dtype=mx.int32)
            self._buffer = mx.concatenate([self.tokens, spare]) if self._size else spare
        self._buffer[self._size : end] = new.reshape(-1).astype(mx.int32)
        self._size = end
        return self._buffer[:end]

    @property
    def tokens(self) -> mx.array:
        if self._buffer is None:
            return mx.zeros((0,), dtype=mx.int32)
        return self._buffer[: self._size]

    @property
    def state(self) -> mx.array:
        """What to evaluate."""
        return self.tokens

    def __len__(self) -> int:
        return self._size

    def trim(self, n: int) -> int:
        """Forget the latest `n` ids, or all where there are fewer; return how many."""
        n = min(self._size, number_of_tokens(n))
        self._size -= n
        return n
