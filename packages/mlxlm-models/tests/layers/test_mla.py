from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_cache import KVCache, create_causal_mask
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec

SPEC = MLASpec(
    hidden_size=32,
    heads=4,
    kv_lora_rank=64,
    q_lora_rank=24,
    nope_dim=32,
    rope_dim=32,
    value_dim=16,
    rope=RopeSpec(32, traditional=True),
    norm=NormSpec(1e-6),
)
X = mx.random.normal((2, 9, 32), key=mx.random.key(0))


def built(**changes: Any) -> Any:
    mx.random.seed(1)
    return replace(SPEC, **changes).build()


@pytest.mark.parametrize("mask", [None, "causal", create_causal_mask(9)])
def test_both_ways_of_attending_agree(mask: Any) -> None:
    layer = built()
    layer._few = 0
    expanded = layer(X, mask)
    layer._few = 100
    assert mx.allclose(layer(X, mask), expanded, atol=1e-5).item()


def test_an_additive_mask_is_added_either_way() -> None:
    layer = built()
    mask = mx.where(create_causal_mask(9), 0.0, -1e9)
    layer._few = 0
    expanded = layer(X, mask)
    layer._few = 100
    assert mx.allclose(layer(X, mask), expanded, atol=1e-5).item()
    assert mx.allclose(layer(X, "causal"), expanded, atol=1e-5).item()


def test_the_way_is_chosen_by_the_number_of_queries() -> None:
    # DeepSeek-V3: 512 * 256 multiplications to expand, 768 more per absorbed query.
    layer = replace(
        SPEC, heads=2, kv_lora_rank=512, nope_dim=128, rope_dim=64, value_dim=128, rope=None
    ).build()
    assert layer._few == 512 * 256 // (1088 - 320)


@pytest.mark.parametrize("sizes", [[9], [4, 5], [1] * 9, [6, 1, 1, 1]])
def test_steps_and_chunks_are_the_whole(sizes: list[int]) -> None:
    layer = built()
    whole = layer(X, "causal")
    cache, parts, start = layer.make_cache(), [], 0
    for size in sizes:
        mask = cache.make_mask(size)
        parts.append(layer(X[:, start : start + size], mask, cache))
        start += size
    assert mx.allclose(mx.concatenate(parts, axis=1), whole, atol=1e-5).item()


def test_the_cache_holds_the_latent_and_one_rotated_key() -> None:
    layer, cache = built(), KVCache()
    layer(X, "causal", cache)
    keys, values = cache.state
    assert keys is not None
    assert values is not None
    assert (keys.shape, values.shape) == ((2, 1, 9, 64), (2, 1, 9, 32))


@pytest.mark.parametrize("few", [0, 100])
def test_a_quantized_cache_is_close(few: int) -> None:
    layer, cache = built(), KVCache()
    layer._few = few
    whole = layer(X, "causal")
    layer(X[:, :6], "causal", cache)
    packed = cache.to_quantized(group_size=32, bits=8)
    rest = layer(X[:, 6:], packed.make_mask(3), packed)
    assert (mx.abs(rest - whole[:, 6:]).max() / mx.abs(whole).max()).item() < 0.03


def test_projections_quantize_under_the_same_names(parameters: Any) -> None:
    layer = built()
    whole = layer(X, "causal")
    nn.quantize(layer, group_size=32, bits=8, class_predicate=lambda path, m: path == "embed_q")
    assert {n for n in parameters(layer) if n.startswith("embed_q")} == {
        "embed_q.weight",
        "embed_q.scales",
        "embed_q.biases",
    }
    for few in (0, 100):
        layer._few = few
        error = mx.abs(layer(X, "causal") - whole).max() / mx.abs(whole).max()
        assert error.item() < 0.02


def test_queries_may_come_from_one_projection(parameters: Any) -> None:
    names = parameters(built(q_lora_rank=None)).keys()
    assert "q_proj.weight" in names
    assert not any(name.startswith("q_a") for name in names)


def test_latents_can_be_scaled() -> None:
    layer, scaled = built(), built(q_scale=2.0, kv_scale=3.0)
    scaled.update(layer.parameters())
    layer.q_a_layernorm.weight = layer.q_a_layernorm.weight * 2
    layer.kv_a_layernorm.weight = layer.kv_a_layernorm.weight * 3
    assert mx.allclose(layer(X, "causal"), scaled(X, "causal"), atol=1e-5).item()
