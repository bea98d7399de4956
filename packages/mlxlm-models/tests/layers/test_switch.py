from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_models.layers.activations import ClippedSwiGLU, silu
from mlxlm_models.layers.switch import SORT_FROM, SwitchLinear, SwitchMLP

EXPERTS, HIDDEN, INNER = 5, 32, 64
KEY = mx.random.key(3)


def product(layer: Any, x: mx.array, expert: int) -> mx.array:
    y = layer.weight[expert] @ x
    return y + layer.bias[expert] if "bias" in layer else y


def one_by_one(mlp: Any, x: mx.array, indices: mx.array, activation: Any) -> mx.array:
    """Compute every choice by itself."""
    rows = []
    for token, choices in zip(
        x.reshape(-1, HIDDEN), indices.reshape(-1, indices.shape[-1]), strict=True
    ):
        for expert in choices.tolist():
            gate, up = (product(mlp[name], token, expert) for name in ("gate_proj", "up_proj"))
            rows.append(product(mlp.down_proj, activation(gate, up), expert))
    return mx.stack(rows).reshape(*indices.shape, HIDDEN)


def inputs(tokens: int) -> tuple[mx.array, mx.array]:
    x = mx.random.normal((1, tokens, HIDDEN), key=KEY)
    return x, mx.random.randint(0, EXPERTS, (1, tokens, 2), key=KEY)


@pytest.mark.parametrize("tokens", [1, 7, SORT_FROM])
@pytest.mark.parametrize("bias", [False, True])
def test_each_choice_gets_its_expert(tokens: int, bias: bool) -> None:
    mlp: Any = SwitchMLP(EXPERTS, HIDDEN, INNER, "silu", bias=bias)
    if bias:
        for name in ("gate_proj", "up_proj", "down_proj"):
            mlp[name].bias = mx.random.normal(mlp[name].bias.shape, key=KEY)
    x, indices = inputs(tokens)
    expected = one_by_one(mlp, x, indices, lambda gate, up: silu(gate) * up)
    assert mx.allclose(mlp(x, indices), expected, atol=1e-5).item()


def test_clipped_gates() -> None:
    activation = ClippedSwiGLU(0.1, alpha=1.7, shift=1.0)
    mlp = SwitchMLP(EXPERTS, HIDDEN, INNER, activation)
    x, indices = inputs(3)
    assert mx.allclose(mlp(x, indices), one_by_one(mlp, x, indices, activation), atol=1e-5).item()


@pytest.mark.parametrize("tokens", [3, SORT_FROM])
def test_half_precision_is_close(tokens: int) -> None:
    mlp = SwitchMLP(EXPERTS, HIDDEN, INNER, "silu")
    x, indices = inputs(tokens)
    exact = mlp(x, indices)
    mlp.set_dtype(mx.bfloat16)
    y = mlp(x.astype(mx.bfloat16), indices)
    assert y.dtype == mx.bfloat16
    assert mx.allclose(y.astype(mx.float32), exact, atol=0.05).item()


@pytest.mark.parametrize("tokens", [3, SORT_FROM])
@pytest.mark.parametrize(("mode", "bits", "error"), [("affine", 8, 0.01), ("mxfp4", 4, 0.3)])
def test_experts_quantize_under_the_same_names(
    tokens: int, mode: str, bits: int, error: float, parameters: Any
) -> None:
    mlp = SwitchMLP(EXPERTS, HIDDEN, INNER, "silu", bias=True)
    x, indices = inputs(tokens)
    exact = mlp(x, indices)
    nn.quantize(mlp, group_size=32, bits=bits, mode=mode)
    names = {name for name in parameters(mlp) if name.startswith("gate_proj")}
    biases = {"gate_proj.biases"} if mode == "affine" else set()
    assert names == {"gate_proj.weight", "gate_proj.scales", "gate_proj.bias"} | biases
    worst = mx.abs(mlp(x, indices) - exact).max() / mx.abs(exact).max()
    assert worst.item() < error


def test_plain_experts_have_no_gate(parameters: Any) -> None:
    mlp = SwitchMLP(EXPERTS, HIDDEN, INNER, "relu2", gated=False)
    assert parameters(mlp).keys() == {"up_proj.weight", "down_proj.weight"}
    x, indices = inputs(2)
    up = mx.maximum(mlp.up_proj.weight[indices[0, 0, 0].item()] @ x[0, 0], 0) ** 2
    expected = mlp.down_proj.weight[indices[0, 0, 0].item()] @ up
    assert mx.allclose(mlp(x, indices)[0, 0, 0], expected, atol=1e-5).item()


def test_a_gradient_reaches_the_experts_chosen() -> None:
    layer = SwitchLinear(EXPERTS, 8, 4)
    x, chosen = mx.ones((2, 1, 8)), mx.array([0, 3])

    def loss(weight: mx.array) -> mx.array:
        layer.weight = weight
        return layer(x, chosen).sum()

    gradient = mx.grad(loss)(layer.weight)
    touched = mx.abs(gradient).sum(axis=(1, 2)) > 0
    assert touched.tolist() == [True, False, False, True, False]
