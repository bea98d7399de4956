from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_models.layers.activations import XIELU, ClippedSwiGLU, silu
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec

SPEC = MLPSpec(hidden_size=8, intermediate_size=12, activation="silu")
X = mx.random.normal((2, 3, 8), key=mx.random.key(0))


def test_gated() -> None:
    mlp = SPEC.build()
    expected = mlp.down_proj(silu(mlp.gate_proj(X)) * mlp.up_proj(X))
    assert mx.allclose(mlp(X), expected, atol=1e-6).item()


def test_fused_computes_the_same() -> None:
    split, fused = SPEC.build(), replace(SPEC, fused=True).build()
    fused.gate_up_proj.weight = mx.concatenate([split.gate_proj.weight, split.up_proj.weight])
    fused.down_proj.weight = split.down_proj.weight
    assert mx.allclose(split(X), fused(X), atol=1e-6).item()


def test_bias_is_an_option(parameters: Any) -> None:
    names = parameters(replace(SPEC, bias=True).build()).keys()
    assert {"gate_proj.bias", "up_proj.bias", "down_proj.bias"} <= names
    assert all(name.endswith("weight") for name in parameters(SPEC.build()))


def test_a_plain_mlp_has_two_projections(parameters: Any) -> None:
    names = MLPNames(up="fc1", down="fc2")
    mlp = replace(SPEC, gated=False, names=names, bias=True, down_bias=False).build()
    assert parameters(mlp).keys() == {"fc1.weight", "fc1.bias", "fc2.weight"}
    assert mx.allclose(mlp(X), mlp.fc2(silu(mlp.fc1(X))), atol=1e-6).item()


def test_the_inner_norm_stands_before_the_last_projection() -> None:
    mlp = replace(SPEC, inner_norm=NormSpec(1e-5)).build()
    inner = mlp.ffn_sub_norm(silu(mlp.gate_proj(X)) * mlp.up_proj(X))
    assert mx.allclose(mlp(X), mlp.down_proj(inner), atol=1e-6).item()


def test_the_rows_of_up_may_come_first() -> None:
    first = replace(SPEC, fused=True).build()
    second = replace(SPEC, fused=True, up_first=True).build()
    second.update(first.parameters())
    gate, up = mx.split(first.gate_up_proj.weight, 2)
    second.gate_up_proj.weight = mx.concatenate([up, gate])
    assert mx.allclose(first(X), second(X), atol=1e-6).item()


def test_xielu_is_its_formula() -> None:
    act = XIELU()
    x = mx.linspace(-3, 3, 13)
    alpha = float(np.log1p(np.exp(0.55)))
    v = np.linspace(-3, 3, 13)
    below = (np.expm1(np.minimum(v, -1e-6)) - v) * (0.5 + alpha) + 0.5 * v
    expected = np.where(v > 0, alpha * v * v + 0.5 * v, below)
    np.testing.assert_allclose(np.array(act(x)), expected, atol=1e-5)
    mlp = replace(SPEC, gated=False, activation="xielu").build()
    assert mx.allclose(mlp(X), mlp.down_proj(act(mlp.up_proj(X))), atol=1e-6).item()


def test_a_gate_of_its_own_needs_a_gated_mlp() -> None:
    with pytest.raises(TypeError, match="needs a gate"):
        replace(SPEC, gated=False, activation=ClippedSwiGLU(7.0)).build()
