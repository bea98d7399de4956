from typing import Any

import mlx.core as mx
from mlxlm_models.layers.gains import Gain, GainedAttentionSpec
from mlxlm_models.layers.norms import NormSpec


def test_a_gain_keeps_the_dtype_of_what_it_multiplies() -> None:
    gain: Any = Gain("a_g")
    gain.a_g = mx.array([2.0])
    x = mx.ones((1, 3), mx.bfloat16)
    assert gain(x).dtype == mx.bfloat16
    assert gain(x).tolist() == [[2.0, 2.0, 2.0]]


def test_queries_of_each_head_have_their_own_gain() -> None:
    spec = GainedAttentionSpec(
        hidden_size=8,
        heads=2,
        kv_heads=2,
        head_dim=4,
        rope=None,
        qk_norm=NormSpec(1e-6, weight=False),
        norm_rotated=True,
    )
    attention: Any = spec.build()
    attention.head_gain.head_g = mx.array([0.0, 1.0])
    attention.o_proj.weight = mx.eye(8)
    x = mx.random.normal((1, 5, 8))
    values = attention.v_proj(x)
    # A head whose queries are nothing gives the mean of the values.
    assert mx.allclose(attention(x)[:, -1, :4], values[..., :4].mean(axis=1), atol=1e-5).item()
    assert not mx.allclose(attention(x)[:, -1, 4:], values[..., 4:].mean(axis=1), atol=1e-3).item()
