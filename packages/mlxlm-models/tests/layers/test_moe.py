from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.router import RouterSpec

SPEC = MoESpec(
    hidden_size=8,
    intermediate_size=6,
    router=RouterSpec(experts=4, top_k=2),
    activation="silu",
)
SHARED = MLPSpec(hidden_size=8, intermediate_size=5, activation="silu")
X = mx.random.normal((2, 3, 8), key=mx.random.key(0))


def expected(moe: Any, x: mx.array, chosen: mx.array, weights: mx.array) -> mx.array:
    outputs = moe.switch_mlp(x, chosen)
    return (outputs * weights[..., None]).sum(axis=-2)


def test_experts_are_weighed_by_the_router() -> None:
    moe: Any = SPEC.build()
    chosen, weights = SPEC.router.choose(moe.gate(X))
    assert mx.allclose(moe(X), expected(moe, X, chosen, weights), atol=1e-6).item()


@pytest.mark.parametrize("gated", [False, True])
def test_the_shared_expert_is_added_for_every_token(gated: bool) -> None:
    moe: Any = replace(SPEC, shared=SHARED, shared_gate=gated).build()
    chosen, weights = SPEC.router.choose(moe.gate(X))
    shared = moe.shared_experts(X)
    if gated:
        shared = shared * mx.sigmoid(moe.shared_expert_gate(X))
    assert mx.allclose(moe(X), expected(moe, X, chosen, weights) + shared, atol=1e-6).item()


def test_each_token_may_blend_experts_and_the_shared_one() -> None:
    moe: Any = replace(SPEC, shared=SHARED, blend=True).build()
    moe.shared_expert_gate.bias = mx.array([0.5, -0.5])
    chosen, weights = SPEC.router.choose(moe.gate(X))
    shares = mx.softmax(moe.shared_expert_gate(X), axis=-1)
    routed = expected(moe, X, chosen, weights)
    blended = routed * shares[..., :1] + moe.shared_experts(X) * shares[..., 1:]
    assert mx.allclose(moe(X), blended, atol=1e-6).item()


@pytest.mark.parametrize("top_k", [1, 2])
def test_inputs_can_be_weighed_instead_of_outputs(top_k: int) -> None:
    router = RouterSpec(experts=4, top_k=top_k, scoring="sigmoid", normalize=False)
    moe: Any = replace(SPEC, router=router, scale_input=True).build()
    chosen, weights = router.choose(moe.gate(X))
    parts = [
        moe.switch_mlp(X * weights[..., k : k + 1], chosen[..., k : k + 1]) for k in range(top_k)
    ]
    assert mx.allclose(moe(X), sum(parts).squeeze(-2), atol=1e-6).item()


@pytest.mark.parametrize("place", ["gate", "router", "block"])
def test_the_correction_is_where_the_checkpoint_has_it(place: Any, parameters: Any) -> None:
    router = replace(SPEC.router, scoring="sigmoid", correction=place, wide=place == "gate")
    names = MoENames(gate_inner="layer" if place == "router" else None)
    moe = replace(SPEC, router=router, names=names).build()
    name = "e_score_correction_bias" if place == "block" else "gate.e_score_correction_bias"
    assert parameters(moe)[name].shape == (4,)
    holder: Any = moe if place == "block" else moe.gate
    holder.e_score_correction_bias = mx.array([0.0, 0.0, 9.0, 9.0])
    chosen, weights = router.choose(moe.gate(X), holder.e_score_correction_bias)
    assert set(chosen.flatten().tolist()) == {2, 3}
    assert mx.allclose(moe(X), expected(moe, X, chosen, weights), atol=1e-6).item()


@pytest.mark.parametrize("length", [3, 40])
def test_the_last_experts_may_give_what_they_read(length: int) -> None:
    """For few tokens and for many, whose experts are sorted."""
    x = mx.random.normal((2, length, 8), key=mx.random.key(1))
    router = RouterSpec(experts=6, top_k=3, normalize=False)
    moe: Any = replace(SPEC, router=router, identities=2).build()
    assert moe.switch_mlp.up_proj.weight.shape[0] == 4
    chosen, weights = router.choose(moe.gate(x))
    assert 0 < (chosen >= 4).sum().item() < chosen.size
    outputs = mx.where(
        (chosen >= 4)[..., None], x[..., None, :], moe.switch_mlp(x, mx.minimum(chosen, 3))
    )
    assert mx.allclose(moe(x), (outputs * weights[..., None]).sum(axis=-2), atol=1e-6).item()


def test_parts_have_the_names_of_the_checkpoint(parameters: Any) -> None:
    names = MoENames(gate="router", gate_inner="layer", experts="experts", shared="shared_expert")
    moe = replace(SPEC, names=names, shared=SHARED).build()
    assert {name.rpartition(".")[0] for name in parameters(moe)} == {
        "router.layer",
        *(f"experts.{part}_proj" for part in ("gate", "up", "down")),
        *(f"shared_expert.{part}_proj" for part in ("gate", "up", "down")),
    }
