"""What a stack of caches has to be, to be stored under a key and served for another.

R17: a state that does not match its key is never stored and never served.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx

from mlxlm_cache.base import Cache, holds_keys, leaves
from mlxlm_cache.batch import Batch
from mlxlm_cache.errors import CacheMismatch
from mlxlm_cache.prompt import trim_prompt_cache


def check_holds(cache: Sequence[Cache], length: int) -> None:
    """Raise CacheMismatch unless every layer in use has seen `length` tokens of one sequence.

    Recurrent layers that do not count their tokens are believed, if another one counts.
    """
    layers = leaves(cache)
    batch = next((c for c in layers if isinstance(c, Batch) or getattr(c, "rows", 1) != 1), None)
    if batch is not None:
        raise CacheMismatch(
            f"{type(batch).__name__} holds a batch: extract the sequence that is to be stored"
        )
    used = [c for c in layers if not c.empty()]
    if not used:
        raise CacheMismatch(f"the key has {length} tokens, but the cache has seen none")
    for c in used:
        if (holds_keys(c) or c.offset) and c.offset != length:
            raise CacheMismatch(
                f"the key has {length} tokens, but {type(c).__name__} has seen {c.offset}: "
                f"store a cache under exactly the tokens that it has seen"
            )


def can_go_back(cache: Sequence[Cache], n: int) -> bool:
    """Tell whether every layer in use can take its latest `n` tokens back now."""
    return n == 0 or all(c.empty() or c.can_trim(n) for c in cache)


def cut(cache: Sequence[Cache], surplus: int, length: int) -> None:
    """Take `surplus` tokens back; raise CacheError unless `length` are left in every layer."""
    if surplus:
        trim_prompt_cache(cache, surplus)
        check_holds(cache, length)


def copied(cache: Sequence[Cache]) -> list[Cache]:
    return [c.copy() for c in cache]


def arrays(caches: Iterable[Any]) -> dict[int, mx.array]:
    """Return all arrays of some caches by identity: what copies share is there once."""
    found: dict[int, mx.array] = {}
    seen: set[int] = set()
    waiting: list[Any] = list(caches)
    while waiting:
        value = waiting.pop()
        if isinstance(value, mx.array):
            found[id(value)] = value
        elif id(value) in seen or isinstance(value, str | bytes) or callable(value):
            continue  # what can be called is a function, a class or a model
        else:
            seen.add(id(value))
            if isinstance(value, Cache):
                waiting += vars(value).values()
            elif isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, Iterable):
                waiting += value
            elif hasattr(value, "__dict__"):
                waiting += vars(value).values()
    return found


def nbytes(caches: Iterable[Any]) -> int:
    """Return the bytes of all arrays, spare room included, shared ones counted once."""
    return sum(array.nbytes for array in arrays(caches).values())
