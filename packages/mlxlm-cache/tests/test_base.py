import gc
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import (
    Cache,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
)
from mlxlm_cache.affine import Affine
from mlxlm_cache.base import holds_keys

KINDS: dict[str, Callable[[], Cache]] = {
    "KVCache": KVCache,
    "ConcatenateKVCache": ConcatenateKVCache,
    "QuantizedKVCache": lambda: QuantizedKVCache(group_size=32, bits=8),
    "RotatingKVCache": lambda: RotatingKVCache(max_size=4000, keep=4),
    "RotatingQuantizedKVCache": lambda: RotatingQuantizedKVCache(4000, group_size=32, bits=8),
    "ChunkedKVCache": lambda: ChunkedKVCache(4000),
}
# Positive: an update of that many tokens; negative: a trim.
ACTS = st.lists(st.sampled_from([1, 1, 1, 2, 7, 255, 300, -1, -3, -200]), max_size=12)


def plain(fetched: Any, cache: Cache) -> np.ndarray:
    """Return what was fetched as floats."""
    if isinstance(fetched, mx.array):
        return np.array(fetched)
    assert isinstance(cache, Affine)
    data, scales, biases = fetched
    return np.array(
        mx.dequantize(data, scales, biases, group_size=cache.group_size, bits=cache.bits)
    )


def stored(array: np.ndarray, cache: Cache) -> np.ndarray:
    """Return what the cache should make of tokens: themselves, or rounded row by row."""
    if not isinstance(cache, Affine):
        return array
    return plain(cache.pack(mx.array(array)), cache)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(acts=ACTS)
def test_updates_and_trims_equal_a_list(kind: str, acts: list[int]) -> None:
    cache = KINDS[kind]()
    held = np.zeros((1, 2, 0, 32), dtype=np.float32)
    for step, act in enumerate(acts):
        if act < 0:
            expected = min(-act, held.shape[2])
            assert cache.trim(-act) == expected
            held = held[:, :, : held.shape[2] - expected]
        else:
            new = np.array(mx.random.normal((1, 2, act, 32), key=mx.random.key(step)))
            held = np.concatenate([held, new], axis=2)
            keys, values = cache.update_and_fetch(mx.array(new), mx.array(-new))
            np.testing.assert_array_equal(plain(keys, cache), stored(held, cache))
            np.testing.assert_array_equal(plain(values, cache), stored(-held, cache))
        assert cache.offset == cache.size() == held.shape[2]
        assert cache.empty() == (held.shape[2] == 0)
        assert cache.capabilities.trim == held.shape[2]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(acts=ACTS)
def test_from_state_goes_on_like_the_original(kind: str, acts: list[int]) -> None:
    cache = KINDS[kind]()
    for act in acts:
        if act < 0:
            cache.trim(-act)
        else:
            new = mx.random.normal((1, 2, act, 32), key=mx.random.key(cache.offset))
            cache.update_and_fetch(new, -new)
    again = type(cache).from_state(cache.state, cache.meta_state)
    assert (again.offset, again.meta_state) == (cache.offset, cache.meta_state)
    new = mx.random.normal((1, 2, 1, 32), key=mx.random.key(1))
    for ours, theirs in zip(
        cache.update_and_fetch(new, -new), again.update_and_fetch(new, -new), strict=True
    ):
        np.testing.assert_array_equal(plain(ours, cache), plain(theirs, again))


@pytest.mark.parametrize("kind", KINDS)
def test_state_holds_live_tokens_only_and_nbytes_counts_the_buffers(kind: str) -> None:
    cache = KINDS[kind]()
    assert cache.state == (None, None)
    assert cache.nbytes == 0
    new = mx.zeros((1, 2, 5, 32))
    cache.update_and_fetch(new, new)
    keys, _ = cache.state
    assert (keys if isinstance(keys, mx.array) else keys[0]).shape[2] == 5
    if kind in ("KVCache", "RotatingKVCache"):
        assert cache.nbytes == 2 * 2 * 256 * 32 * 4
    cache.trim(5)
    assert cache.state == (None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_trim_of_a_negative_number_is_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match="cannot trim -1 tokens"):
        KINDS[kind]().trim(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_capabilities_are_the_methods(kind: str) -> None:
    cache = KINDS[kind]()
    assert cache.capabilities.quantize == hasattr(cache, "to_quantized")
    assert cache.capabilities.merge == hasattr(cache, "merge")
    assert cache.capabilities.checkpoint == hasattr(cache, "checkpoint")


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_and_meta_state_that_disagree_are_an_error(kind: str) -> None:
    cache = KINDS[kind]()
    new = mx.zeros((1, 2, 5, 32))
    cache.update_and_fetch(new, new)
    wrong = tuple("6" if item == "5" else item for item in cache.meta_state) or ("6",)
    with pytest.raises(ValueError, match=r"6"):
        type(cache).from_state(cache.state, wrong)


def test_a_cache_without_update_and_fetch_holds_no_keys() -> None:
    class Recurrent(Cache):
        state = ()
        nbytes = 0

        def size(self) -> int:
            return 0

        @classmethod
        def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> "Recurrent":
            return cls()

    cache = Recurrent()
    assert not holds_keys(cache)
    assert holds_keys(KVCache())
    assert not cache.is_trimmable()
    with pytest.raises(ValueError, match="Recurrent cannot take tokens back"):
        cache.trim(1)
    with pytest.raises(TypeError, match="Recurrent holds no keys and values"):
        cache.update_and_fetch(mx.zeros((1, 1, 1, 1)), mx.zeros((1, 1, 1, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_independent_and_shares_memory_until_it_is_written_to(kind: str) -> None:
    cache = KINDS[kind]()
    new = mx.random.normal((1, 2, 300, 32), key=mx.random.key(0))
    cache.update_and_fetch(new, -new)
    mx.eval(cache.state)
    gc.collect()
    before = mx.get_active_memory()
    copied = cache.copy()
    mx.eval(copied.state)
    assert mx.get_active_memory() - before < cache.nbytes / 10
    one, other = new[:, :, :1], new[:, :, 1:2]
    ours, _ = cache.update_and_fetch(one, one)
    theirs, _ = copied.update_and_fetch(other, other)
    np.testing.assert_array_equal(
        plain(ours, cache), stored(np.array(mx.concatenate([new, one], axis=2)), cache)
    )
    np.testing.assert_array_equal(
        plain(theirs, cache), stored(np.array(mx.concatenate([new, other], axis=2)), cache)
    )
    copied.trim(301)
    assert (cache.offset, copied.offset) == (301, 0)
