"""The README's table of what each cache can do, found by asking the caches."""

from dataclasses import fields

import mlx.core as mx

from mlxlm_cache.base import Cache, Capabilities
from mlxlm_cache.concatenate import ConcatenateKVCache
from mlxlm_cache.kv import KVCache
from mlxlm_cache.quantized import QuantizedKVCache
from mlxlm_cache.rotating import RotatingKVCache

_BOUND = 8


def capability_table() -> str:
    """Return a Markdown table: a row for each cache, a column for each capability."""
    caches = [KVCache(), QuantizedKVCache(), RotatingKVCache(_BOUND), ConcatenateKVCache()]
    header = ["cache", *(field.name for field in fields(Capabilities)), "bounded"]
    rows = [header, ["---"] * len(header), *map(_row, caches)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(cache: Cache) -> list[str]:
    one = mx.zeros((1, 1, 1, 64))
    answers = []
    for _ in range(2 * _BOUND):
        cache.update_and_fetch(one, one)
        answers.append(cache.capabilities)
    trims = [bool(answer.trim) for answer in answers]
    first_no = trims.index(False) if False in trims else None
    trim = "yes" if first_no is None else "until it wraps" if first_no else "no"
    latest = answers[-1]
    others = [latest.quantize, latest.merge, latest.checkpoint, cache.size() <= _BOUND]
    return [f"`{type(cache).__name__}`", trim, *("yes" if yes else "no" for yes in others)]


if __name__ == "__main__":
    import sys

    sys.stdout.write(capability_table() + "\n")
