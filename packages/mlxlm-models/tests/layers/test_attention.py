from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, RotatingKVCache
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec

SPEC = AttentionSpec(hidden_size=16, heads=4, kv_heads=2, head_dim=8, rope=RopeSpec(8))
X = mx.random.normal((2, 6, 16), key=mx.random.key(0))


@pytest.fixture
def shapes(parameters: Any) -> Any:
    return lambda spec: {name: value.shape for name, value in parameters(spec.build()).items()}


def test_parameters_have_the_public_names(shapes: Any) -> None:
    assert shapes(SPEC) == {
        "q_proj.weight": (32, 16),
        "k_proj.weight": (16, 16),
        "v_proj.weight": (16, 16),
        "o_proj.weight": (16, 32),
    }
    more = replace(SPEC, qkv_bias=True, out_bias=True, qk_norm=NormSpec(1e-5))
    assert shapes(more).keys() - shapes(SPEC).keys() == {
        *(f"{name}_proj.bias" for name in "qkvo"),
        "q_norm.weight",
        "k_norm.weight",
    }
    assert shapes(replace(SPEC, fused="rows")) == {
        "qkv_proj.weight": (64, 16),
        "o_proj.weight": (16, 32),
    }


def test_a_fused_projection_computes_the_same() -> None:
    split, fused = SPEC.build(), replace(SPEC, fused="rows").build()
    rows = [split[f"{name}_proj"].weight for name in "qkv"]
    fused.qkv_proj.weight = mx.concatenate(rows)
    fused.o_proj.weight = split.o_proj.weight
    assert mx.allclose(split(X, "causal"), fused(X, "causal"), atol=1e-5).item()


def test_without_positions_order_does_not_matter() -> None:
    attention = replace(SPEC, rope=None).build()
    swapped = mx.take(X, mx.array([1, 0, 2, 3, 4, 5]), axis=1)
    assert mx.allclose(attention(X)[:, 5], attention(swapped)[:, 5], atol=1e-5).item()
    with_positions = SPEC.build()
    there, back = with_positions(X)[:, 5], with_positions(swapped)[:, 5]
    assert not mx.allclose(there, back, atol=1e-5).item()


def test_scale_is_given_or_that_of_the_head() -> None:
    attention: Any = SPEC.build()
    scaled = replace(SPEC, scale=8**-0.5).build()
    scaled.update(attention.parameters())
    assert mx.array_equal(attention(X), scaled(X)).item()
    other = replace(SPEC, scale=1.0).build()
    other.update(attention.parameters())
    assert not mx.allclose(attention(X), other(X)).item()


def test_the_cache_fits_the_window() -> None:
    assert isinstance(SPEC.build().make_cache(), KVCache)
    cache = replace(SPEC, window=5).build().make_cache()
    assert isinstance(cache, RotatingKVCache)
    assert (cache.max_size, cache.keep) == (5, 0)


@pytest.mark.parametrize("fused", [None, "rows"])
def test_a_layer_quantizes_and_still_computes(fused: Any) -> None:
    import mlx.nn as nn

    spec = AttentionSpec(
        hidden_size=64, heads=2, kv_heads=2, head_dim=32, rope=RopeSpec(32), fused=fused
    )
    layer = spec.build()
    x = mx.random.normal((1, 4, 64), key=mx.random.key(1))
    exact = layer(x, "causal")
    nn.quantize(layer, group_size=64, bits=8)
    assert mx.allclose(layer(x, "causal"), exact, atol=0.02).item()
