"""What has to hold on every backend, against NumPy in float64 and against itself."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import (
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    create_attention_mask,
    scaled_dot_product_attention,
)
from mlxlm_cache.device import backend
from mlxlm_generate import generate_step
from mlxlm_models.registry import get_architecture
from mlxlm_sample import make_sampler

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
# How far float32 attention may be off: GPUs multiply in reduced precision.
TOLERANCE = {"cpu": 1e-5, "cuda": 5e-3, "metal": 5e-3}


def reference(queries: Any, keys: Any, values: Any, scale: float) -> Any:
    """Causal attention with grouped heads, in float64."""
    queries, keys, values = (np.array(part, dtype=np.float64) for part in (queries, keys, values))
    groups = queries.shape[1] // keys.shape[1]
    keys, values = (np.repeat(part, groups, axis=1) for part in (keys, values))
    scores = queries @ keys.swapaxes(-1, -2) * scale
    length, seen = scores.shape[-2:]
    scores[..., ~np.tri(length, seen, seen - length, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ values


@pytest.fixture(scope="module")
def model() -> Any:
    mx.random.seed(0)
    made, _ = get_architecture("llama").create(CONFIG)
    mx.eval(made.parameters())
    return made


def test_the_backend_is_the_one_under_test(wanted: str) -> None:
    assert backend() == wanted
    assert mx.default_device() == mx.Device(mx.cpu if wanted == "cpu" else mx.gpu)


@pytest.mark.parametrize("cache_type", [KVCache, lambda: RotatingKVCache(64)])
def test_attention_is_that_of_float64(wanted: str, cache_type: Any) -> None:
    mx.random.seed(1)
    cache, scale = cache_type(), 32**-0.5
    seen_keys, seen_values = [], []
    for length in (7, 1, 5):
        queries = mx.random.normal((1, 4, length, 32))
        keys, values = mx.random.normal((2, 1, 2, length, 32))
        mask = create_attention_mask(queries[:, 0], cache)
        seen_keys.append(keys)
        seen_values.append(values)
        all_keys, all_values = cache.update_and_fetch(keys, values)
        ours = scaled_dot_product_attention(queries, all_keys, all_values, cache, scale, mask)
        right = reference(
            queries, mx.concatenate(seen_keys, axis=2), mx.concatenate(seen_values, axis=2), scale
        )
        assert np.abs(np.array(ours) - right).max() < TOLERANCE[wanted]


def test_a_quantized_cache_is_close(wanted: str) -> None:
    mx.random.seed(2)
    cache, scale = QuantizedKVCache(group_size=32, bits=8), 32**-0.5
    queries, (keys, values) = (
        mx.random.normal((1, 4, 9, 32)),
        mx.random.normal((2, 1, 2, 9, 32)),
    )
    mask = create_attention_mask(queries[:, 0], cache)
    held = cache.update_and_fetch(keys, values)
    ours = scaled_dot_product_attention(queries, *held, cache, scale, mask)
    assert np.abs(np.array(ours) - reference(queries, keys, values, scale)).max() < 0.05


def test_step_by_step_is_what_it_is_at_once(model: Any, wanted: str) -> None:
    tokens = mx.random.randint(0, 128, (2, 12), key=mx.random.key(3))
    cache = model.make_cache()
    steps = [model(tokens[:, i : i + 1], cache) for i in range(12)]
    difference = mx.abs(mx.concatenate(steps, axis=1) - model(tokens)).max().item()
    assert difference < 10 * TOLERANCE[wanted]


@pytest.mark.parametrize("settings", [{}, {"max_kv_size": 32}, {"kv_bits": 8, "kv_group_size": 32}])
def test_a_key_makes_generation_repeatable(model: Any, settings: dict[str, int]) -> None:
    def run() -> list[int]:
        sampler = make_sampler(temp=1.0, key=5)
        steps = generate_step([1, 2, 3, 4], model, max_tokens=24, sampler=sampler, **settings)
        return [int(token) for token, _ in steps]

    first = run()
    assert len(first) == 24
    assert run() == first
