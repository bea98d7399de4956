"""LongRoPE (Ding et al., 2024): two sets of frequencies, chosen by the length of the text."""

from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_models.layers.rope import LongRopeSpec, MagnifiedRope, Rope

_LONG = "_long_rope"
"""Set on a cache: whether the keys it holds were rotated with the long frequencies."""

_STILL = 1e30
"""As a reciprocal frequency: no rotation to speak of at any position."""


class LongRope(MagnifiedRope):
    """Short frequencies up to `original_length` tokens in all, long ones beyond.

    When a text grows past that length, or is trimmed back, the keys of its cache are turned
    from one set to the other, as rotations compose: queries and keys always agree on what a
    distance is. (What deeper layers made of earlier tokens stays; only a whole new prefill
    would change it.) A window that has dropped tokens keeps to the set it began with.
    """

    def __init__(self, spec: LongRopeSpec) -> None:
        super().__init__(spec)
        self.original_length = spec.original_length
        short, long = spec.freqs or (), spec.long_freqs
        self.short, self.long = mx.array(short), mx.array(long)
        turns = [1 / b - 1 / a for a, b in zip(short, long, strict=True)]
        self._lengthen = mx.array([1 / turn if turn else _STILL for turn in turns])
        self._shorten = mx.array([-1 / turn if turn else _STILL for turn in turns])

    def __call__(
        self, queries: mx.array, keys: mx.array, cache: Cache | None = None
    ) -> tuple[mx.array, mx.array]:
        offset: Any = 0 if cache is None else cache.offset
        length = queries.shape[-2]
        if not isinstance(offset, int):
            long = (offset + length > self.original_length)[:, None, None, None]
            return self._either(queries, offset, long), self._either(keys, offset, long)
        freqs = self.long if self._settle(cache, offset, length) else self.short
        return self.rotate(queries, offset, None, freqs), self.rotate(keys, offset, None, freqs)

    def _either(self, x: mx.array, offset: mx.array, long: mx.array) -> mx.array:
        """Rotate each sequence of a batch with its own set."""
        return mx.where(
            long,
            self.rotate(x, offset, None, self.long),
            self.rotate(x, offset, None, self.short),
        )

    def _settle(self, cache: Cache | None, offset: int, length: int) -> bool:
        """Return whether the next tokens go with the long set, and make the keys held agree."""
        long = offset + length > self.original_length
        if cache is None:
            return long
        if offset:
            held = getattr(cache, _LONG, offset > self.original_length)
            if held != long:
                if cache.size() != offset:
                    return bool(held)
                self._turn(cache, self._lengthen if long else self._shorten)
        setattr(cache, _LONG, long)
        return long

    def _turn(self, cache: Any, freqs: mx.array) -> None:
        """Rotate the keys held, at positions 0, 1, …, further by `freqs`."""
        keys, values = cache.state
        if isinstance(keys, tuple):
            packed, scales, biases = keys
            keys = mx.dequantize(
                packed, scales, biases, group_size=cache.group_size, bits=cache.bits
            )
            cache.state = cache.pack(Rope.rotate(self, keys, 0, None, freqs)), values
        else:
            cache.state = Rope.rotate(self, keys, 0, None, freqs), values
