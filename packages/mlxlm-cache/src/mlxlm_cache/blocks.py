"""Buffers that grow in blocks, so that allocation sizes repeat and most writes are in place."""

import mlx.core as mx

BLOCK = 256
"""Tokens. A buffer's length is a multiple of it, or the bound of the cache."""


def rounded_up(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK


def grown(buffer: mx.array | None, like: mx.array, used: int, capacity: int) -> mx.array:
    """Return a buffer of `capacity` tokens that starts with `used` ones of `buffer`.

    The token axis is 2; the other sizes and the dtype are those of `like`.
    """
    batch, heads, _, *rest = like.shape
    spare = mx.zeros((batch, heads, capacity - used, *rest), dtype=like.dtype)
    if buffer is None or used == 0:
        return spare
    return mx.concatenate([buffer[:, :, :used], spare], axis=2)


def allocated(*buffers: mx.array | tuple[mx.array, ...] | None) -> int:
    """Return the bytes of the buffers there are."""
    parts = (b if isinstance(b, tuple) else (b,) for b in buffers if b is not None)
    return sum(array.nbytes for part in parts for array in part)
