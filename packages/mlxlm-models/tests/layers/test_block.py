from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import (
    PRE_NORM,
    SANDWICH_NORM,
    SHARED_NORM,
    BlockNames,
    BlockSpec,
    NormNames,
)
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.norms import NormSpec

X = mx.random.normal((1, 3, 8), key=mx.random.key(0))


@pytest.mark.parametrize(
    "norms", [PRE_NORM, SANDWICH_NORM, NormNames(None, "norm_a", None, "norm_b")]
)
def test_norms_stand_where_their_names_say(norms: NormNames, parameters: Any) -> None:
    built: Any = BlockSpec(
        attention=AttentionSpec(hidden_size=8, heads=2, kv_heads=2, head_dim=4, rope=None),
        mlp=MLPSpec(hidden_size=8, intermediate_size=8, activation="silu"),
        norm=NormSpec(1e-6),
        norms=norms,
    ).build()
    for name, value in parameters(built).items():
        if "norm" in name:
            key = mx.random.key(len(name))
            built[name.split(".")[0]].weight = mx.random.normal(value.shape, key=key)

    def norm(name: str | None, x: Any) -> Any:
        return x if name is None else built[name](x)

    h = X + norm(norms.after_attention, built.self_attn(norm(norms.before_attention, X)))
    expected = h + norm(norms.after_mlp, built.mlp(norm(norms.before_mlp, h)))
    assert mx.allclose(built(X), expected, atol=1e-5).item()
    names = {name.split(".")[0] for name in parameters(built)}
    given = {norms.before_attention, norms.after_attention, norms.before_mlp, norms.after_mlp}
    assert names == (given - {None}) | {"self_attn", "mlp"}


SPEC = BlockSpec(
    attention=AttentionSpec(hidden_size=8, heads=2, kv_heads=2, head_dim=4, rope=None),
    mlp=MLPSpec(hidden_size=8, intermediate_size=8, activation="silu"),
    norm=NormSpec(1e-6),
)


@pytest.mark.parametrize("norms", [SHARED_NORM, PRE_NORM])
def test_both_halves_of_a_parallel_block_read_its_input(norms: NormNames) -> None:
    built: Any = replace(SPEC, parallel=True, norms=norms).build()
    first = built.input_layernorm(X)
    second = built.post_attention_layernorm(X) if norms is PRE_NORM else first
    expected = X + built.self_attn(first) + built.mlp(second)
    assert mx.allclose(built(X), expected, atol=1e-6).item()


@pytest.mark.parametrize("parallel", [False, True])
def test_the_residual_scale_multiplies_what_each_half_adds(parallel: bool) -> None:
    built: Any = replace(SPEC, residual_scale=0.5, parallel=parallel).build()
    h = X + 0.5 * built.self_attn(built.input_layernorm(X))
    read = X if parallel else h
    expected = h + 0.5 * built.mlp(built.post_attention_layernorm(read))
    assert mx.allclose(built(X), expected, atol=1e-6).item()


def test_halves_have_the_names_given(parameters: Any) -> None:
    built = replace(SPEC, names=BlockNames("attn", "feed_forward")).build()
    heads = {name.split(".")[0] for name in parameters(built)}
    assert {"attn", "feed_forward"} <= heads
    assert built.make_cache().empty()


def test_norms_of_the_sums() -> None:
    norms = NormNames(None, "first", None, "second")
    built: Any = replace(SPEC, norms=norms, norm_sum=True).build()
    h = built.first(X + built.self_attn(X))
    assert mx.allclose(built(X), built.second(h + built.mlp(h)), atol=1e-6).item()


def test_attention_may_be_one_level_further_down(parameters: Any) -> None:
    built: Any = replace(SPEC, names=BlockNames("attn", attention_inner="attention")).build()
    assert "attn.attention.q_proj.weight" in parameters(built)
    assert built.spec.plan().shards.keys() >= {"attn.attention.q_proj"}
    assert built.make_cache().empty()
    h = X + built.attn.attention(built.input_layernorm(X))
    expected = h + built.mlp(built.post_attention_layernorm(h))
    assert mx.allclose(built(X), expected, atol=1e-6).item()
