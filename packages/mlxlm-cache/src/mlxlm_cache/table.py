"""The README's table of what each cache can do, found by asking the caches."""

from dataclasses import fields

import mlx.core as mx

from mlxlm_cache import (
    ArraysCache,
    BatchChunkedKVCache,
    BatchKVCache,
    BatchQuantizedKVCache,
    BatchRotatingKVCache,
    BatchRotatingQuantizedKVCache,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
)
from mlxlm_cache.base import Cache, Capabilities

_BOUND = 8
_STEPS = 600  # more than any spare room
_PADDING = [1, 0]


def capability_table() -> str:
    """Return a Markdown table: a row for each cache, a column for each capability."""
    caches: list[Cache] = [
        KVCache(),
        QuantizedKVCache(),
        RotatingKVCache(_BOUND),
        RotatingQuantizedKVCache(_BOUND),
        ChunkedKVCache(_BOUND),
        ConcatenateKVCache(),
        ArraysCache(1),
        BatchKVCache(_PADDING),
        BatchQuantizedKVCache(_PADDING),
        BatchRotatingKVCache(_BOUND, _PADDING),
        BatchRotatingQuantizedKVCache(_BOUND, _PADDING),
        BatchChunkedKVCache(_BOUND, _PADDING),
    ]
    header = ["cache", *(field.name for field in fields(Capabilities)), "bounded"]
    rows = [header, ["---"] * len(header), *map(_row, caches)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(cache: Cache) -> list[str]:
    whole = []
    for _ in range(_STEPS):
        _feed(cache)
        whole.append(cache.capabilities.trim == cache.tokens_seen)
    trim = "yes" if all(whole) else "until it drops tokens" if whole[0] else "no"
    latest = cache.capabilities
    others = [latest.quantize, latest.merge, latest.checkpoint, cache.size() < _STEPS]
    return [f"`{type(cache).__name__}`", trim, *("yes" if yes else "no" for yes in others)]


def _feed(cache: Cache) -> None:
    rows = getattr(cache, "rows", 1)
    if isinstance(cache, ArraysCache):
        cache[0] = mx.zeros((rows, 1))
        cache.advance(1)
    else:
        one = mx.zeros((rows, 1, 1, 64))
        cache.update_and_fetch(one, one)


if __name__ == "__main__":
    import sys

    sys.stdout.write(capability_table() + "\n")
