"""R57: a long decode keeps no graphs and no buffers but the cache's own."""

import gc
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlxlm_cache import (
    ArraysCache,
    BatchChunkedKVCache,
    BatchKVCache,
    BatchQuantizedKVCache,
    BatchRotatingKVCache,
    BatchRotatingQuantizedKVCache,
    Cache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
    scaled_dot_product_attention,
)

PACKED = {"group_size": 32, "bits": 4}


def going_back(cache: ArraysCache | RotatingKVCache) -> Cache:
    cache.checkpoint(4)
    return cache


STEPS = 5000

KINDS: dict[str, Callable[[], Cache]] = {
    "KVCache": KVCache,
    "QuantizedKVCache": lambda: QuantizedKVCache(**PACKED),
    "RotatingKVCache": lambda: RotatingKVCache(64, keep=4),
    "RotatingKVCache, checkpoint": lambda: going_back(RotatingKVCache(64, keep=4)),
    "RotatingQuantizedKVCache": lambda: RotatingQuantizedKVCache(64, keep=4, **PACKED),
    "ChunkedKVCache": lambda: ChunkedKVCache(64),
    "ConcatenateKVCache": ConcatenateKVCache,
    "ArraysCache": lambda: ArraysCache(1),
    "ArraysCache, checkpoint": lambda: going_back(ArraysCache(1)),
    "CacheList": lambda: CacheList(RotatingKVCache(64), ArraysCache(1)),
    "BatchKVCache": lambda: BatchKVCache([3, 0]),
    "BatchQuantizedKVCache": lambda: BatchQuantizedKVCache([0, 0], **PACKED),
    "BatchRotatingKVCache": lambda: BatchRotatingKVCache(64, [3, 0], keep=4),
    "BatchRotatingQuantizedKVCache": (
        lambda: BatchRotatingQuantizedKVCache(64, [3, 0], keep=4, **PACKED)
    ),
    "BatchChunkedKVCache": lambda: BatchChunkedKVCache(64, [3, 0]),
}


UNBOUNDED = {
    "KVCache",
    "QuantizedKVCache",
    "ConcatenateKVCache",
    "BatchKVCache",
    "BatchQuantizedKVCache",
}


def resident() -> int | None:
    """Return the memory of this process, in bytes, where Linux tells."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def step(cache: Cache, x: mx.array) -> mx.array:
    """Feed a token and return what it sees."""
    if isinstance(cache, CacheList):
        for inner in cache:
            x = step(inner, x)
        return x
    if isinstance(cache, ArraysCache):
        state = x if cache[0] is None else 0.9 * cache[0] + x
        cache[0] = state
        cache.advance(1)
        return state
    mask = cache.make_mask(1)
    return scaled_dot_product_attention(x, *cache.update_and_fetch(x, x), cache, 1.0, mask)


def decode(cache: Cache, steps: int) -> None:
    """Do what a generation loop does: evaluate the output of each step, one step late."""
    pending = mx.zeros((getattr(cache, "rows", 1), 1, 1, 32))
    for _ in range(steps):
        pending = step(cache, pending)
        mx.async_eval(pending)  # type: ignore[no-untyped-call]
    mx.eval(pending, cache.state)


@pytest.mark.parametrize("kind", KINDS)
def test_R57_a_long_decode_keeps_the_cache_alone(kind: str) -> None:
    if kind in UNBOUNDED:
        decode(KINDS[kind](), STEPS)  # so that the process has what buffers of all sizes take
    gc.collect()
    before = mx.get_active_memory()
    cache = KINDS[kind]()
    decode(cache, STEPS // 5)
    process = resident()
    decode(cache, STEPS - STEPS // 5)
    gc.collect()
    assert STEPS - 3 <= cache.tokens_seen <= STEPS
    assert mx.get_active_memory() - before < cache.nbytes + 64 * 1024
    if process is not None:
        # A retained graph node costs about a kilobyte: that would be tens of megabytes here.
        now = resident()
        assert now is not None
        assert now - process < (12 if kind in UNBOUNDED else 4) * 1024 * 1024
