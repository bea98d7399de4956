"""R57: a long decode keeps no graphs and no buffers but the cache's own."""

import gc
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlxlm_cache import (
    Cache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    scaled_dot_product_attention,
)

KINDS: dict[str, tuple[Callable[[], Cache], int]] = {
    "KVCache": (KVCache, 5000),
    "QuantizedKVCache": (lambda: QuantizedKVCache(group_size=32, bits=4), 5000),
    "RotatingKVCache": (lambda: RotatingKVCache(64, keep=4), 5000),
    "ConcatenateKVCache": (ConcatenateKVCache, 1000),
}


def resident() -> int:
    """Return the memory of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def decode(cache: Cache, steps: int) -> None:
    """Do what a generation loop does: evaluate the output of each step, one step late."""
    pending = mx.zeros((1, 1, 1, 32))
    for _ in range(steps):
        fetched = cache.update_and_fetch(pending, pending)
        out = scaled_dot_product_attention(pending, *fetched, cache, 1.0, None)
        mx.async_eval(out)  # type: ignore[no-untyped-call]
        pending = out
    mx.eval(pending, cache.state)


@pytest.mark.parametrize("kind", KINDS)
def test_R57_live_memory_after_a_long_decode_is_the_cache_alone(kind: str) -> None:
    make, steps = KINDS[kind]
    gc.collect()
    before = mx.get_active_memory()
    cache = make()
    decode(cache, steps)
    gc.collect()
    assert cache.offset == steps
    assert mx.get_active_memory() - before < cache.nbytes + 64 * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux only")
def test_R57_a_bounded_cache_leaves_the_process_flat() -> None:
    cache = RotatingKVCache(64, keep=4)
    decode(cache, 1000)
    before = resident()
    decode(cache, 5000)
    # A retained graph node costs about a kilobyte: that would be tens of megabytes here.
    assert resident() - before < 4 * 1024 * 1024
