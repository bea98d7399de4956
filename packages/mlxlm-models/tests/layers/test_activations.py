import math

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_models.layers.activations import ACTIVATIONS, gate

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


def test_an_unknown_activation_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="sine"):
        gate("sine")
