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


KINDS: dict[str, tuple[Callable[[], Cache], int]] = {
    "KVCache": (KVCache, 5000),
    "QuantizedKVCache": (lambda: QuantizedKVCache(**PACKED), 5000),
    "RotatingKVCache": (lambda: RotatingKVCache(64, keep=4), 5000),
    "RotatingKVCache, checkpoint": (lambda: going_back(RotatingKVCache(64, keep=4)), 5000),
    "RotatingQuantizedKVCache": (lambda: RotatingQuantizedKVCache(64, keep=4, **PACKED), 5000),
    "ChunkedKVCache": (lambda: ChunkedKVCache(64), 5000),
    "ConcatenateKVCache": (ConcatenateKVCache, 1000),
    "ArraysCache": (lambda: ArraysCache(1), 5000),
    "ArraysCache, checkpoint": (lambda: going_back(ArraysCache(1)), 5000),
    "CacheList": (lambda: CacheList(RotatingKVCache(64), ArraysCache(1)), 5000),
    "BatchKVCache": (lambda: BatchKVCache([3, 0]), 5000),
    "BatchQuantizedKVCache": (lambda: BatchQuantizedKVCache([0, 0], **PACKED), 5000),
    "BatchRotatingKVCache": (lambda: BatchRotatingKVCache(64, [3, 0], keep=4), 5000),
    "BatchRotatingQuantizedKVCache": (
        lambda: BatchRotatingQuantizedKVCache(64, [3, 0], keep=4, **PACKED),
        5000,
    ),
    "BatchChunkedKVCache": (lambda: BatchChunkedKVCache(64, [3, 0]), 5000),
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
    make, steps = KINDS[kind]
    gc.collect()
    before = mx.get_active_memory()
    cache = make()
    decode(cache, steps // 5)
    process = resident()
    decode(cache, steps - steps // 5)
    gc.collect()
    assert steps - 3 <= cache.tokens_seen <= steps
    assert mx.get_active_memory() - before < cache.nbytes + 64 * 1024
    if process is not None and kind not in UNBOUNDED:
        # A retained graph node costs about a kilobyte: that would be tens of megabytes here.
        now = resident()
        assert now is not None
        assert now - process < 4 * 1024 * 1024
