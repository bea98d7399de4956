from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import (
    Cache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    create_causal_mask,
    scaled_dot_product_attention,
)

KINDS: dict[str, Callable[[], Cache]] = {
    "KVCache": KVCache,
    "ConcatenateKVCache": ConcatenateKVCache,
    "RotatingKVCache": lambda: RotatingKVCache(40),
    "QuantizedKVCache": lambda: QuantizedKVCache(group_size=32, bits=8),
}
MASKS = ("none", "causal", "array", "heads", "additive")


def random(*shape: int, seed: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def masks(kind: str, heads: int, length: int, size: int) -> tuple[Any, np.ndarray | None]:
    """Return a mask to pass and the array that it means."""
    causal = create_causal_mask(length, size - length)
    per_head = (mx.arange(heads)[:, None, None] + causal + mx.arange(size)) % 3 > 0
    additive = mx.where(causal, random(length, size, seed=9), -1e9)
    passed = {
        "none": None,
        "causal": "causal",
        "array": causal,
        "heads": (per_head | mx.eye(length, size, size - length, dtype=mx.bool_))[None],
        "additive": additive,
    }[kind]
    if passed is None:
        return None, None
    return passed, np.array(causal if isinstance(passed, str) else passed)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    mask=st.sampled_from(MASKS),
    shared=st.sampled_from([1, 3]),
    batch=st.integers(1, 2),
    before=st.integers(0, 20),
    length=st.integers(1, 6),
    with_sinks=st.booleans(),
)
def test_R12_attention_equals_brute_force(
    kind: str,
    mask: str,
    shared: int,
    batch: int,
    before: int,
    length: int,
    with_sinks: bool,
    attention: Callable[..., np.ndarray],
) -> None:
    """Every cache, every mask, grouped heads, with sinks: quantized ones too."""
    cache = KINDS[kind]()
    keys, values = random(batch, 2, before, 64, seed=0), random(batch, 2, before, 32, seed=1)
    if before:
        cache.update_and_fetch(keys, values)
    new_keys, new_values = (
        random(batch, 2, length, 64, seed=2),
        random(batch, 2, length, 32, seed=3),
    )
    queries = random(batch, 2 * shared, length, 64, seed=4)
    sinks = random(2 * shared, seed=5) * 3 if with_sinks else None
    passed, meant = masks(mask, 2 * shared, length, before + length)
    out = scaled_dot_product_attention(
        queries, *cache.update_and_fetch(new_keys, new_values), cache, 0.2, passed, sinks
    )
    expected = attention(
        np.array(queries),
        np.concatenate([keys, new_keys], axis=2),
        np.concatenate([values, new_values], axis=2),
        0.2,
        meant,
        None if sinks is None else np.array(sinks),
    )
    tolerance = 0.05 if kind == "QuantizedKVCache" else 1e-5
    assert out.shape == (batch, 2 * shared, length, 32)
    np.testing.assert_allclose(out, expected, atol=tolerance)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("kind", ["KVCache", "QuantizedKVCache"])
def test_the_dtype_of_the_queries_stays(kind: str, dtype: mx.Dtype) -> None:
    cache = KINDS[kind]()
    x = random(1, 2, 3, 32, seed=0).astype(dtype)
    out = scaled_dot_product_attention(
        x, *cache.update_and_fetch(x, x), cache, 0.2, "causal", sinks=mx.zeros(2)
    )
    assert out.dtype == dtype


def test_packed_keys_need_their_cache() -> None:
    cache = QuantizedKVCache(group_size=32)
    x = random(1, 2, 3, 32, seed=0)
    keys, values = cache.update_and_fetch(x, x)
    with pytest.raises(TypeError, match="group_size and bits, not KVCache"):
        scaled_dot_product_attention(x, keys, values, KVCache(), 1.0, None)
    with pytest.raises(TypeError, match="both be arrays or both be packed"):
        scaled_dot_product_attention(x, keys, x, cache, 1.0, None)
