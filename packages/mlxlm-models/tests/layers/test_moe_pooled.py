import mlx.core as mx
from mlxlm_models.layers.moe_pooled import PooledMoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan
from mlxlm_models.layers.router import RouterSpec

SPEC = PooledMoESpec(
    hidden_size=16,
    intermediate_size=12,
    pooled_size=8,
    router=RouterSpec(experts=4, top_k=2, scoring="sigmoid", wide=True),
    activation="silu",
    pre_norm=NormSpec(1e-5, "rms_offset"),
    post_norm=NormSpec(1e-5, "rms_input"),
)


def test_experts_read_what_the_router_does_not() -> None:
    """Against each expert computed alone."""
    layer = SPEC.build()
    layer.gate.weight = mx.random.normal((4, 16))
    x = mx.random.normal((2, 3, 16))
    chosen, weights = SPEC.router.choose(layer.gate(x))
    pooled = layer.pre_expert_norm(layer.pre_expert_proj(x))
    total = mx.zeros((2, 3, 8))
    for expert in range(4):
        gate, up, down = (
            layer.switch_mlp[n].weight[expert] for n in ("gate_proj", "up_proj", "down_proj")
        )
        inner = pooled @ gate.T
        out = layer.switch_mlp.post_expert_norm(
            (inner * mx.sigmoid(inner) * (pooled @ up.T)) @ down.T
        )
        share = mx.where(chosen == expert, weights, 0).sum(axis=-1, keepdims=True)
        total = total + share * out
    assert mx.allclose(layer(x), layer.post_expert_proj(total), atol=1e-5).item()


def test_nothing_is_divided_since_an_expert_is_normalised_whole() -> None:
    assert SPEC.plan() == Plan()
    assert SPEC.readers() == ("gate", "pre_expert_proj")
