"""R19: copies share buffers, and no one's tokens are ever another's."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx.utils import tree_map
from mlxlm_cache import Cache, ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache, blocks

KINDS: dict[str, Callable[[], Any]] = {
    "KVCache": KVCache,
    "QuantizedKVCache": lambda: QuantizedKVCache(group_size=32, bits=8),
    "RotatingKVCache": lambda: RotatingKVCache(8, keep=2),
    "RotatingKVCache, slack": lambda: RotatingKVCache(8, keep=1, slack=3),
    "ChunkedKVCache": lambda: ChunkedKVCache(4, slack=3),
}

PREFIX = 4096


@pytest.fixture
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 4)
        yield


def feed(cache: Cache, first: int, length: int, heads: int = 1) -> None:
    """Append tokens whose keys are `first`, `first` + 1, …"""
    x = mx.arange(first, first + length, dtype=mx.float32)[None, None, :, None]
    x = mx.broadcast_to(x, (1, heads, length, 32))
    cache.update_and_fetch(x, -x)


def contents(cache: Cache) -> Any:
    return tree_map(lambda x: x if x is None else x.tolist(), cache.state), cache.meta_state


def alike(ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, ChunkedKVCache):
        return bool(contents(ours) == contents(theirs))
    latest = min(ours.size(), theirs.size())  # when it forgets depends on the room it has
    states: list[Any] = [ours.state, theirs.state]
    keys = [state[0][:, :, -latest:].tolist() if latest else [] for state in states]
    return bool(ours.offset == theirs.offset and keys[0] == keys[1])


def independent(cache: Cache) -> Cache:
    """Copy every byte."""

    def copied(x: mx.array | None) -> mx.array | None:
        return x if x is None else mx.array(x.tolist(), dtype=x.dtype).reshape(x.shape)

    return type(cache).from_state(tree_map(copied, cache.state), cache.meta_state)


step = st.tuples(
    st.sampled_from(["feed", "feed", "feed", "copy", "trim", "drop", "compact"]),
    st.integers(0, 3),
    st.integers(1, 5),
)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", KINDS)
@given(steps=st.lists(step, max_size=25))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it is the same for all
)
def test_copies_are_like_caches_that_share_nothing(kind: str, steps: list[Any]) -> None:
    made = KINDS[kind]()
    pairs = [(made, independent(made))]
    token = 0
    for act, which, n in steps:
        cache, mirror = pairs[which % len(pairs)]
        if act == "feed":
            feed(cache, token, n)
            feed(mirror, token, n)
            token += n
        elif act == "trim":
            n = min(n, cache.capabilities.trim, mirror.capabilities.trim)
            assert cache.trim(n) == mirror.trim(n)
        elif act == "copy":
            pairs.append((cache.copy(), independent(mirror)))
        elif act == "compact":
            cache.compact()
        elif len(pairs) > 1:
            del pairs[which % len(pairs)]
        for ours, theirs in pairs:
            assert alike(ours, theirs)


def peak_of(work: Callable[[], None]) -> int:
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    work()
    return mx.get_peak_memory() - before


@pytest.mark.parametrize("kind", ["KVCache", "QuantizedKVCache"])
@pytest.mark.parametrize("length", [PREFIX, PREFIX - 100])
def test_R19_a_copy_that_goes_on_takes_memory_for_new_tokens_only(kind: str, length: int) -> None:
    layers = [KINDS[kind]() for _ in range(16)]
    for cache in layers:
        feed(cache, 0, length)
        mx.eval(cache.state)
    nbytes = sum(cache.nbytes for cache in layers)
    copies = [cache.copy() for cache in layers]

    def go_on() -> None:
        for i in range(8):
            for cache in copies:
                feed(cache, length + i, 1)
            mx.eval([cache.state for cache in copies])

    assert peak_of(go_on) < nbytes / 10
    assert all(cache.offset == length for cache in layers)


def test_the_last_of_several_copies_writes_in_place_again() -> None:
    cache = KVCache()
    feed(cache, 0, 100)
    other = cache.copy()
    feed(cache, 100, 5)
    before = cache.keys
    cache.trim(5)
    del other
    feed(cache, 200, 5)
    assert cache.keys is before
