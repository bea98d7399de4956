"""The caches of a model's layers, handled as one."""

import logging
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxlm_cache.affine import check_settings
from mlxlm_cache.base import Cache, holds_keys, number_of_tokens
from mlxlm_cache.errors import CacheNotBounded, CacheNotQuantizable, CacheNotTrimmable
from mlxlm_cache.kv import KVCache

SINKS = 4
"""First tokens that a full-attention layer keeps when its cache is bounded."""

QUANTIZED_START = 5000

log = logging.getLogger(__name__)


def make_prompt_cache(model: Any, max_kv_size: int | None = None) -> list[Cache]:
    """Return a new cache for each layer: `model.make_cache()`, or one KVCache per `model.layers`.

    With `max_kv_size`, no layer holds more tokens than that: full-attention layers keep
    the first four and the latest ones, and smaller windows of the model's own stay.
    Raises CacheNotBounded, naming the layers, where that cannot be had.
    """
    if hasattr(model, "make_cache"):
        caches: list[Cache] = list(model.make_cache())
    else:
        caches = [KVCache() for _ in model.layers]
    return caches if max_kv_size is None else _bounded(caches, max_kv_size)


def _bounded(caches: list[Cache], max_size: int) -> list[Cache]:
    if max_size <= SINKS:
        raise ValueError(
            f"max_kv_size must be more than {SINKS}, the first tokens that stay, not {max_size}"
        )
    unbounded = [c for c in caches if not all(map(_can_be_bounded, _leaves(c)))]
    if unbounded:
        raise CacheNotBounded(
            f"max_kv_size={max_size} cannot bound {_named(caches, unbounded)}: "
            f"leave max_kv_size out, or give the class a `bounded` method"
        )
    return [
        cache.bounded(max_size, keep=SINKS) if hasattr(cache, "bounded") else cache
        for cache in caches
    ]


def _leaves(cache: Any) -> list[Any]:
    return cache.leaves() if isinstance(cache, Cache) else [cache]


def _can_be_bounded(cache: Any) -> bool:
    grows = holds_keys(cache) if isinstance(cache, Cache) else True
    return hasattr(cache, "bounded") or not grows


def can_trim_prompt_cache(cache: Sequence[Cache]) -> bool:
    """Tell whether every layer can take back every token it holds."""
    return all(c.is_trimmable() for c in cache)


def trim_prompt_cache(cache: Sequence[Cache], num_tokens: int) -> int:
    """Take the latest `num_tokens` back from every layer, or all where there are fewer.

    Returns how many. Raises CacheNotTrimmable, naming the layers and changing none,
    where one cannot. Layers that have seen no token do not count.
    """
    used = [c for c in cache if not c.empty()]
    n = min(number_of_tokens(num_tokens), max((c.tokens_seen for c in used), default=0))
    stuck = [c for c in used if not c.can_trim(n)]
    if stuck:
        raise CacheNotTrimmable(
            f"cannot take {n} tokens back from {_named(cache, stuck)}: "
            f"start from a new cache, or from one saved before these tokens"
        )
    for c in used:
        c.trim(n)
    return n


def checkpoint_prompt_cache(cache: Sequence[Cache], tokens: int = 8) -> None:
    """From now on, let up to `tokens` of the tokens to come be taken back from every layer.

    Windows hold as many more tokens, recurrent layers as many more states; what keeps all
    of its tokens needs nothing. 0 ends it. Raises CacheNotTrimmable, naming the layers
    and changing none, where one cannot.
    """
    number_of_tokens(tokens)
    stuck = _stuck(cache)
    if stuck:
        raise CacheNotTrimmable(f"tokens can never be taken back from {_named(cache, stuck)}")
    for c in cache:
        if hasattr(c, "checkpoint"):
            c.checkpoint(tokens)


def can_checkpoint_prompt_cache(cache: Sequence[Cache]) -> bool:
    """Tell whether `checkpoint_prompt_cache` can be had from every layer."""
    return not _stuck(cache)


def _stuck(cache: Sequence[Cache]) -> list[Cache]:
    return [c for c in cache if not all(map(_can_go_back, c.leaves()))]


def _can_go_back(cache: Cache) -> bool:
    return hasattr(cache, "checkpoint") or cache.is_trimmable()


def quantize_prompt_cache(
    cache: list[Cache], *, bits: int, group_size: int = 64, start: int = QUANTIZED_START
) -> bool:
    """Quantize every layer, in place in the list, once one has seen `start` tokens.

    Returns True at the call that does it. Cheap enough to call at every step. Raises
    CacheNotQuantizable, before `start` and with no layer changed, where a layer that
    stores keys cannot be quantized, or is with other settings.
    """
    check_settings(group_size, bits)
    stuck = [c for c in cache if not _quantizable(c, bits, group_size)]
    if stuck:
        raise CacheNotQuantizable(
            f"cannot quantize keys and values to {bits} bits in groups of {group_size} in "
            f"{_named(cache, stuck)}: leave the bits out, or use caches that can"
        )
    waiting = [i for i, c in enumerate(cache) if hasattr(c, "to_quantized")]
    seen = max((c.tokens_seen for c in cache), default=0)
    if not waiting or seen < start:
        return False
    # Built for all before any is replaced: what cannot be quantized raises here.
    quantized = {
        i: cache[i].to_quantized(group_size=group_size, bits=bits)  # type: ignore[attr-defined]
        for i in waiting
    }
    for i in waiting:
        cache[i] = quantized[i]
        mx.eval(cache[i].state)  # one layer at a time: the float buffers go as we proceed
    log.info(
        "quantized keys and values of %d layers to %d bits (groups of %d) at %d tokens",
        len(waiting),
        bits,
        group_size,
        seen,
    )
    return True


def _quantizable(cache: Cache, bits: int, group_size: int) -> bool:
    return all(_leaf_quantizable(leaf, bits, group_size) for leaf in cache.leaves())


def _leaf_quantizable(cache: Cache, bits: int, group_size: int) -> bool:
    if hasattr(cache, "to_quantized") or not holds_keys(cache):
        return True
    settings = (getattr(cache, "bits", None), getattr(cache, "group_size", None))
    return settings == (bits, group_size)


def _named(cache: Sequence[Cache], some: Sequence[Cache]) -> str:
    """Describe layers: "RotatingKVCache (layers 0, 2)"."""
    layers: dict[str, list[int]] = {}
    for i, c in enumerate(cache):
        if any(c is one for one in some):
            layers.setdefault(type(c).__name__, []).append(i)
    return "; ".join(
        f"{name} (layer{'s' if len(at) > 1 else ''} {', '.join(map(str, at))})"
        for name, at in layers.items()
    )
