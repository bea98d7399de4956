import mlx.core as mx
import numpy as np
from mlxlm_models.layers.residual_gate import ResidualGate


def test_the_shares_are_those_of_the_formula_and_keep_the_variance() -> None:
    gate = ResidualGate(4, 0.5)
    gate.gate = mx.array([-2.0, -0.1, 0.3, 9.0])
    share = 1 / (1 + np.exp(-np.array([-2.0, -0.1, 0.3, 9.0]) / 0.5))
    kept = np.sqrt(np.maximum(1 - share**2, 1e-3))
    x, h = mx.random.normal((2, 4)), mx.random.normal((2, 4))
    assert np.allclose(gate(x, h), kept * np.array(x) + share * np.array(h), atol=1e-6)


def test_a_replaced_gate_is_used_at_once_and_the_dtype_is_that_of_the_stream() -> None:
    gate = ResidualGate(3, 1.0)
    x, h = mx.ones((1, 3), mx.bfloat16), mx.zeros((1, 3), mx.bfloat16)
    before = gate(x, h)
    gate.gate = mx.full((3,), 20.0)
    assert before.dtype == mx.bfloat16
    assert mx.abs(gate(x, h) - 1e-3**0.5).max().item() < 1e-3
    assert not mx.allclose(before, gate(x, h)).item()
