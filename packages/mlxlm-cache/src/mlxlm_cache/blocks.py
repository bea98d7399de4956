"""Buffers grow in blocks, so that allocation sizes repeat and most writes are in place."""

BLOCK = 256
"""Tokens. A buffer's length is a multiple of it, or the bound of the cache."""


def rounded_up(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK
