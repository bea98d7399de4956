from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlxlm_cache import KVCache, RotatingKVCache
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec

SPEC = AttentionSpec(hidden_size=16, heads=4, kv_heads=2, head_dim=8, rope=RopeSpec(8))
X = mx.random.normal((2, 6, 16), key=mx.random.key(0))


@pytest.fixture
def shapes(parameters: Any) -> Any:
    return lambda spec: {name: value.shape for name, value in parameters(spec.build()).items()}


def test_parameters_have_the_public_names(shapes: Any) -> None:
    assert shapes(SPEC) == {
        "q_proj.weight": (32, 16),
        "k_proj.weight": (16, 16),
        "v_proj.weight": (16, 16),
        "o_proj.weight": (16, 32),
    }
    more = replace(SPEC, qkv_bias=True, out_bias=True, qk_norm=NormSpec(1e-5))
    assert shapes(more).keys() - shapes(SPEC).keys() == {
        *(f"{name}_proj.bias" for name in "qkvo"),
        "q_norm.weight",
        "k_norm.weight",
    }
    assert shapes(replace(SPEC, fused="rows")) == {
        "qkv_proj.weight": (64, 16),
        "o_proj.weight": (16, 32),
    }


def test_a_fused_projection_computes_the_same() -> None:
    split, fused = SPEC.build(), replace(SPEC, fused="rows").build()
    rows = [split[f"{name}_proj"].weight for name in "qkv"]
    fused.qkv_proj.weight = mx.concatenate(rows)
    fused.o_proj.weight = split.o_proj.weight
    assert mx.allclose(split(X, "causal"), fused(X, "causal"), atol=1e-5).item()


def test_without_positions_order_does_not_matter() -> None:
    attention = replace(SPEC, rope=None).build()
    swapped = mx.take(X, mx.array([1, 0, 2, 3, 4, 5]), axis=1)
    assert mx.allclose(attention(X)[:, 5], attention(swapped)[:, 5], atol=1e-5).item()
    with_positions = SPEC.build()
    there, back = with_positions(X)[:, 5], with_positions(swapped)[:, 5]
    assert not mx.allclose(there, back, atol=1e-5).item()


def test_scale_is_given_or_that_of_the_head() -> None:
    attention: Any = SPEC.build()
    scaled = replace(SPEC, scale=8**-0.5).build()
    scaled.update(attention.parameters())
    assert mx.array_equal(attention(X), scaled(X)).item()
    other = replace(SPEC, scale=1.0).build()
    other.update(attention.parameters())
    assert not mx.allclose(attention(X), other(X)).item()


def test_the_cache_fits_the_window() -> None:
    assert isinstance(SPEC.build().make_cache(), KVCache)
    cache = replace(SPEC, window=5).build().make_cache()
    assert isinstance(cache, RotatingKVCache)
    assert (cache.max_size, cache.keep) == (5, 0)


@pytest.mark.parametrize("fused", [None, "rows"])
def test_a_layer_quantizes_and_still_computes(fused: Any) -> None:
    import mlx.nn as nn

    spec = AttentionSpec(
        hidden_size=64, heads=2, kv_heads=2, head_dim=32, rope=RopeSpec(32), fused=fused
    )
    layer = spec.build()
    x = mx.random.normal((1, 4, 64), key=mx.random.key(1))
    exact = layer(x, "causal")
    nn.quantize(layer, group_size=64, bits=8)
    assert mx.allclose(layer(x, "causal"), exact, atol=0.02).item()


def same(a: mx.array, b: mx.array) -> bool:
    return bool(mx.allclose(a, b, atol=1e-5).item())


def copied(spec: Any, layer: Any) -> Any:
    """Build `spec` with the parameters that `layer` has too, where their shapes agree."""
    made = spec.build()
    shapes = {name: value.shape for name, value in tree_flatten(made.parameters())}
    shared = [
        (name, value)
        for name, value in tree_flatten(layer.parameters())
        if shapes.get(name) == value.shape
    ]
    made.load_weights(shared, strict=False)
    return made


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_grouped_rows_hold_each_head_with_its_keys(kv_heads: int) -> None:
    spec = replace(SPEC, kv_heads=kv_heads, qkv_bias=True)
    plain = spec.build()
    for name in "qkv":
        bias = plain[f"{name}_proj"].bias
        plain[f"{name}_proj"].bias = mx.random.normal(bias.shape, key=mx.random.key(1))
    fused = replace(spec, fused="groups").build()
    for tensor in ("weight", "bias"):
        parts = [
            plain[f"{name}_proj"][tensor].reshape(kv_heads, -1, 8, *([16] * (tensor == "weight")))
            for name in "qkv"
        ]
        rows = mx.concatenate(parts, axis=1).flatten(0, 2)
        fused.qkv_proj[tensor] = rows
    fused.o_proj.weight = plain.o_proj.weight
    assert same(plain(X, "causal"), fused(X, "causal"))


def test_normalising_the_whole_projection_is_not_normalising_heads() -> None:
    norm = NormSpec(1e-5)
    whole = replace(SPEC, qk_norm=norm, qk_norm_over="projection").build()
    assert (whole.q_norm.weight.shape, whole.k_norm.weight.shape) == ((32,), (16,))
    q, k = whole.q_norm(whole.q_proj(X)), whole.k_norm(whole.k_proj(X))
    plain = copied(SPEC, whole)
    plain["q_proj"], plain["k_proj"] = (lambda _: q), (lambda _: k)
    assert same(whole(X, "causal"), plain(X, "causal"))


def test_each_head_may_have_its_own_norm() -> None:
    for kind in ("layer", "rms"):
        spec = replace(SPEC, qk_norm=NormSpec(1e-5, kind=kind))
        shared = spec.build()
        own = copied(replace(spec, qk_norm_over="each_head"), shared)
        assert (own.q_norm.weight.shape, own.k_norm.weight.shape) == ((4, 8), (2, 8))
        own.q_norm.weight, own.k_norm.weight = mx.ones((4, 8)), mx.ones((2, 8))
        assert same(shared(X, "causal"), own(X, "causal"))


def test_rotation_before_the_norm_makes_a_difference_to_its_weights() -> None:
    spec = replace(SPEC, qk_norm=NormSpec(1e-5))
    before = spec.build()
    after = copied(replace(spec, norm_rotated=True), before)
    # With equal weights, rotation and normalisation commute.
    assert same(before(X, "causal"), after(X, "causal"))
    for layer in (before, after):
        layer.q_norm.weight = mx.arange(8.0)
    assert not same(before(X, "causal"), after(X, "causal"))


def test_sinks_take_attention_away() -> None:
    plain = SPEC.build()
    sunk = copied(replace(SPEC, sinks=True), plain)
    sunk.sinks = mx.full((4,), -100.0)
    assert same(plain(X, "causal"), sunk(X, "causal"))
    sunk.sinks = mx.full((4,), 100.0)
    assert same(sunk(X, "causal"), mx.zeros_like(X))


def test_clipping_bounds_all_three_projections() -> None:
    plain = SPEC.build()
    assert same(plain(X, "causal"), copied(replace(SPEC, clip=100.0), plain)(X, "causal"))
    assert same(copied(replace(SPEC, clip=0.0), plain)(X, "causal"), mx.zeros_like(X))


@pytest.mark.parametrize(("gate", "rows"), [("features", 32), ("heads", 4), ("query", 64)])
def test_gates_multiply_the_output(gate: Any, rows: int) -> None:
    plain = SPEC.build()
    gated = copied(replace(SPEC, gate=gate), plain)
    name = "q_proj" if gate == "query" else "gate_proj"
    assert gated[name].weight.shape == (rows, 16)
    if gate == "query":
        weight = mx.concatenate(
            [plain.q_proj.weight.reshape(4, 8, 16), mx.zeros((4, 8, 16))], axis=1
        )
        gated.q_proj.weight = weight.flatten(0, 1)
    else:
        gated.gate_proj.weight = mx.zeros((rows, 16))
    # A gate of zero lets half through.
    assert same(gated(X, "causal"), plain(X, "causal") / 2)


def test_values_may_have_another_size(shapes: Any) -> None:
    spec = replace(SPEC, value_dim=6)
    assert shapes(spec)["v_proj.weight"] == (12, 16)
    assert shapes(spec)["o_proj.weight"] == (16, 24)
    assert spec.build()(X, "causal").shape == X.shape


def test_the_inner_norm_stands_before_the_output_projection() -> None:
    plain = SPEC.build()
    normed = copied(replace(SPEC, inner_norm=NormSpec(1e-5)), plain)
    seen: list[mx.array] = []
    plain["o_proj"] = seen.append
    plain(X, "causal")
    assert same(normed(X, "causal"), normed.o_proj(normed.attn_sub_norm(seen[0])))
