import math

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_models.layers.activations import (
    ACTIVATIONS,
    FAST,
    FEW,
    Activation,
    BoundedSwiGLU,
    gate,
)

X = np.linspace(-6, 6, 49)
ERF = np.vectorize(math.erf)
TANH = 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))
EXPECTED = {
    "silu": X / (1 + np.exp(-X)),
    "swish": X / (1 + np.exp(-X)),
    "gelu": 0.5 * X * (1 + ERF(X / math.sqrt(2))),
    "gelu_new": TANH,
    "gelu_fast": TANH,
    "gelu_pytorch_tanh": TANH,
    "quick_gelu": X / (1 + np.exp(-1.702 * X)),
    "sigmoid": 1 / (1 + np.exp(-X)),
    "relu": np.maximum(X, 0),
    "relu2": np.maximum(X, 0) ** 2,
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_are_their_formulas(name: str) -> None:
    np.testing.assert_allclose(
        np.array(ACTIVATIONS[name](mx.array(X, mx.float32))), EXPECTED[name], atol=2e-6
    )


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_gates_multiply_and_keep_the_dtype(name: str, dtype: mx.Dtype) -> None:
    x = mx.array(X, dtype)
    gated = gate(name)(x, x + 1)
    assert gated.dtype == dtype
    assert mx.allclose(gated, ACTIVATIONS[name](x) * (x + 1), rtol=0.02, atol=0.02).item()


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_gates_of_many_numbers_are_the_same(name: str) -> None:
    x = mx.tile(mx.array(X, mx.float32), 1 + FEW // len(X))
    expected = np.tile(EXPECTED[name] * (X + 1), 1 + FEW // len(X))
    np.testing.assert_allclose(np.array(gate(name)(x, x + 1)), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("exact", FAST)
def test_fast_activations_keep_up_at_the_ends(exact: Activation) -> None:
    fast = FAST[exact]
    x = mx.array([-100.0, -30, -1e-30, 0, 1e-30, 30, 100, 1e30, math.inf])
    np.testing.assert_allclose(fast(x), exact(x), rtol=1e-6, atol=2e-7)
    assert mx.isnan(fast(mx.array(math.nan))).item()


@pytest.mark.parametrize("exact", FAST)
def test_the_gradients_of_fast_activations_are_the_same(exact: Activation) -> None:
    x = mx.array([*X, -100, 100], mx.float32)
    ours, theirs = (mx.grad(lambda x, f=f: f(x).sum())(x) for f in (FAST[exact], exact))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_an_unknown_activation_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="sine"):
        gate("sine")


def test_step_bounds_the_gate_after_its_activation() -> None:
    x, up = mx.array([-9.0, 0.5, 9.0]), mx.array([9.0, 0.5, -9.0])
    silu = x * mx.sigmoid(x)
    expected = mx.minimum(silu, 2.0) * mx.array([2.0, 0.5, -2.0])
    assert mx.allclose(gate(BoundedSwiGLU(2.0))(x, up), expected).item()
