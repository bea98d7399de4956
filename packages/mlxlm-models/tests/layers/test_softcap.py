from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import QuantizedKVCache, create_causal_mask
from mlxlm_models.layers.softcap import soft_cap, soft_capped_attention

B, HEADS, KV, L, S, D = 2, 4, 2, 50, 90, 64
Q = mx.random.normal((B, HEADS, L, D), key=mx.random.key(0))
K = mx.random.normal((B, KV, S, D), key=mx.random.key(1))
V = mx.random.normal((B, KV, S, D), key=mx.random.key(2))
SCALE = D**-0.5


def reference(q: Any, k: Any, v: Any, mask: Any, cap: Any) -> Any:
    """Attend in numpy, float64."""
    q, k, v = (np.array(x, np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, HEADS // KV, axis=1) for x in (k, v))
    scores = np.tanh(q @ k.swapaxes(-1, -2) * SCALE / cap) * cap
    if mask is not None:
        scores = np.where(np.array(mask), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


MASKS: dict[str, Any] = {
    "none": None,
    "two": create_causal_mask(L, S - L),
    "four": mx.random.uniform(shape=(B, 1, L, S), key=mx.random.key(3)) > 0.3,
}


def attend(mask: Any, keys: Any = K, values: Any = V, cache: Any = None) -> Any:
    return soft_capped_attention(Q, keys, values, cache, SCALE, mask, 1.5)


@pytest.mark.parametrize("mask", MASKS)
def test_attention_is_the_formula(mask: str) -> None:
    out = attend(MASKS[mask])
    np.testing.assert_allclose(np.array(out), reference(Q, K, V, MASKS[mask], 1.5), atol=1e-5)


def test_an_additive_mask_does_the_same() -> None:
    added = mx.where(MASKS["two"], 0.0, -mx.inf)
    assert mx.allclose(attend(added), attend(MASKS["two"]), atol=1e-6).item()


@pytest.mark.parametrize("mask", MASKS)
def test_packed_keys_and_values_are_attended_to(mask: str) -> None:
    cache = QuantizedKVCache(group_size=64, bits=8)
    packed = cache.update_and_fetch(K, V)
    keys, values = (mx.dequantize(*triple, group_size=64, bits=8) for triple in packed)
    out = attend(MASKS[mask], *packed, cache)
    assert mx.allclose(out, attend(MASKS[mask], keys, values), atol=1e-4).item()


@pytest.mark.parametrize("count", [100, 20_000])
def test_soft_cap_is_its_formula_for_few_and_for_many(count: int) -> None:
    x = np.linspace(-200, 200, count)
    out = soft_cap(mx.array(x, mx.float32), 50.0)
    np.testing.assert_allclose(np.array(out), 50 * np.tanh(x / 50), atol=2e-5)


def test_soft_cap_bounds_and_keeps_the_dtype() -> None:
    x = mx.array([-1e4, -0.01, 0.0, 0.01, 1e4], mx.bfloat16)
    capped = soft_cap(x, 30.0)
    assert capped.dtype == mx.bfloat16
    assert capped.tolist() == pytest.approx([-30, -0.01, 0, 0.01, 30], rel=0.01)
