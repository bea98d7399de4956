from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlxlm_models.layers.activations import silu
from mlxlm_models.layers.mlp import MLPSpec

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
