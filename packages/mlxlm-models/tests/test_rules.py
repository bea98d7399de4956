from types import SimpleNamespace

import mlx.core as mx
import pytest
from mlxlm_models.errors import WeightsError
from mlxlm_models.rules import (
    COMMON_RULES,
    Drop,
    DropWhen,
    Increase,
    Rename,
    Reshape,
    Split,
    Stack,
    Transpose,
    apply_rules,
    drop_extra_layers,
    rename_path,
    split_experts,
    stack_experts,
)


def tensors(*names: str) -> dict[str, mx.array]:
    return {name: mx.zeros(2) for name in names}


def test_drop_matches_whole_names() -> None:
    rule = Drop("*.inv_freq", "vision.*")
    assert rule(tensors("a.inv_freq", "a.inv_freq.b", "vision.x", "my.vision.x"), None).keys() == {
        "a.inv_freq.b",
        "my.vision.x",
    }


def test_drop_when_asks_the_config() -> None:
    rule = DropWhen(lambda config: config.small, Drop("*"))
    assert rule(tensors("a"), SimpleNamespace(small=True)) == {}
    assert rule(tensors("a"), SimpleNamespace(small=False)).keys() == {"a"}


@pytest.mark.parametrize("tied", [True, False])
def test_common_rules_drop_tables_and_the_head_of_a_tied_model(tied: bool) -> None:
    names = tensors("lm_head.weight", "lm_head.scales", "l.rotary_emb.inv_freq", "norm.weight")
    kept = apply_rules(COMMON_RULES, names, SimpleNamespace(tie_word_embeddings=tied))
    assert kept.keys() == {"norm.weight"} | (
        set() if tied else {"lm_head.weight", "lm_head.scales"}
    )


def test_rename_replaces_the_start_of_names_and_paths() -> None:
    rule = Rename(r"transformer\.h\.(\d+)\.", r"model.layers.\1.")
    assert rule(tensors("transformer.h.12.attn.weight", "x.transformer.h.1.y"), None).keys() == {
        "model.layers.12.attn.weight",
        "x.transformer.h.1.y",
    }
    assert rename_path([Drop("*"), rule], "transformer.h.3.attn") == "model.layers.3.attn"


def test_rename_refuses_two_tensors_of_one_name() -> None:
    with pytest.raises(WeightsError, match=r"both 'b\.x'"):
        Rename(r"a\.", "b.")(tensors("b.x", "a.x"), None)


def test_split_cuts_rows_plain_and_packed() -> None:
    weight = mx.random.normal((12, 64))
    packed, scales, biases = mx.quantize(weight, group_size=64, bits=4)
    rule = Split("*.qkv", ("q", "k", "v"), lambda config: [6, 3, 3])
    given = {
        "l.qkv.weight": packed,
        "l.qkv.scales": scales,
        "l.qkv.biases": biases,
        "l.qkv.bias": mx.arange(12),
        "l.o.weight": weight,
    }
    result = rule(given, None)
    assert result["l.o.weight"] is weight
    assert result["l.v.bias"].tolist() == [9, 10, 11]
    parts = [
        mx.dequantize(
            result[f"l.{n}.weight"], result[f"l.{n}.scales"], result[f"l.{n}.biases"], 64, 4
        )
        for n in "qkv"
    ]
    whole = mx.dequantize(packed, scales, biases, 64, 4)
    assert mx.array_equal(mx.concatenate(parts), whole).item()


def test_split_refuses_rows_that_do_not_add_up() -> None:
    rule = Split("qkv", ("q", "k"), lambda config: [2, 2])
    with pytest.raises(WeightsError, match=r"'qkv\.weight' has 5 rows where the config makes 4"):
        rule({"qkv.weight": mx.zeros((5, 1))}, None)
    assert rule({"qkv.weight": mx.zeros((4, 1))}, None).keys() == {"q.weight", "k.weight"}


def test_stack_gathers_experts_in_order() -> None:
    rule = Stack("mlp.experts.{}.up_proj", "mlp.switch.up_proj")
    given = {f"l.0.mlp.experts.{i}.up_proj.weight": mx.full((2, 3), i) for i in (2, 0, 1, 10, 9)}
    given |= {f"l.0.mlp.experts.{i}.up_proj.weight": mx.full((2, 3), i) for i in range(3, 9)}
    result = rule(given | tensors("l.0.mlp.gate.weight"), None)
    assert result.keys() == {"l.0.mlp.switch.up_proj.weight", "l.0.mlp.gate.weight"}
    stacked = result["l.0.mlp.switch.up_proj.weight"]
    assert stacked[:, 0, 0].tolist() == list(range(11))


def test_stack_names_the_experts_that_are_missing() -> None:
    rule = Stack("experts.{}.w", "all.w")
    with pytest.raises(WeightsError, match=r"'all\.w\.weight' lacks the experts \[1\]"):
        rule(tensors("experts.0.w.weight", "experts.2.w.weight"), None)


def test_transpose_swaps_matrices_only() -> None:
    rule = Transpose("*.c_attn.*")
    result = rule({"h.c_attn.weight": mx.zeros((2, 3)), "h.c_attn.bias": mx.zeros(3)}, None)
    assert result["h.c_attn.weight"].shape == (3, 2)
    assert result["h.c_attn.bias"].shape == (3,)


def test_split_along_another_axis_in_equal_parts() -> None:
    value = mx.arange(24).reshape(2, 4, 3)
    rule = Split("e.gate_up", ("gate", "up"), axis=1)
    result = rule({"e.gate_up.weight": value, "e.gate_up.bias": value[..., 0]}, None)
    assert mx.array_equal(result["e.gate.weight"], value[:, :2]).item()
    assert mx.array_equal(result["e.up.bias"], value[:, 2:, 0]).item()


def test_split_takes_interleaved_rows_apart() -> None:
    value = mx.arange(8).reshape(4, 2)
    result = Split("gate_up", ("gate", "up"), interleaved=True)({"gate_up.weight": value}, None)
    assert result["gate.weight"].tolist() == [[0, 1], [4, 5]]
    assert result["up.weight"].tolist() == [[2, 3], [6, 7]]


def test_split_refuses_rows_that_make_no_equal_parts() -> None:
    with pytest.raises(WeightsError, match="'a.w' has 3 rows where the config makes 2"):
        Split("a", ("b", "c"))({"a.w": mx.zeros((3, 1))}, None)


def test_transpose_leaves_what_is_in_order() -> None:
    rule = Transpose("w", last=lambda config: config.hidden)
    config = SimpleNamespace(hidden=3)
    assert rule({"w": mx.zeros((2, 3, 4))}, config)["w"].shape == (2, 4, 3)
    assert rule({"w": mx.zeros((2, 4, 3))}, config)["w"].shape == (2, 4, 3)


def test_increase_needs_the_sign_of_the_public_layout() -> None:
    rule = Increase("*norm.weight", sign="*.moe.*")
    converted = rule(tensors("a.norm.weight", "a.mlp.gate"), None)
    assert converted["a.norm.weight"].tolist() == [0.0, 0.0]
    public = rule(tensors("a.norm.weight", "a.moe.gate"), None)
    assert public["a.norm.weight"].tolist() == [1.0, 1.0]
    assert public["a.moe.gate"].tolist() == [0.0, 0.0]


def test_reshape_asks_the_config() -> None:
    rule = Reshape("*.bias", lambda config: (config.experts,))
    result = rule({"a.bias": mx.zeros((1, 4)), "b": mx.zeros((1, 4))}, SimpleNamespace(experts=4))
    assert (result["a.bias"].shape, result["b"].shape) == ((4,), (1, 4))


def test_layers_after_the_last_are_dropped() -> None:
    names = tensors("model.layers.1.a", "model.layers.2.a", "layers.2.b", "norm.weight")
    kept = drop_extra_layers(names, SimpleNamespace(num_hidden_layers=2))
    assert kept.keys() == {"model.layers.1.a", "norm.weight"}


def test_stack_experts_gathers_each_projection() -> None:
    names = tensors(*(f"m.experts.{i}.w{j}.weight" for i in range(2) for j in (1, 2, 3)))
    result = apply_rules(stack_experts("experts", "switch", ("w1", "w3", "w2")), names, None)
    assert {name: value.shape for name, value in result.items()} == {
        f"m.switch.{name}_proj.weight": (2, 2) for name in ("gate", "up", "down")
    }


@pytest.mark.parametrize("prefix", ["", "model.layers.0.mlp."])
def test_split_experts_takes_fused_tensors_apart(prefix: str) -> None:
    gate_up = mx.arange(2 * 3 * 8).reshape(2, 3, 8)  # experts, inputs, outputs
    weights = {
        f"{prefix}experts.gate_up_proj": gate_up,
        f"{prefix}experts.gate_up_proj_bias": gate_up[:, 0],
        f"{prefix}experts.down_proj": mx.zeros((2, 4, 3)),
        f"{prefix}experts.down_proj_bias": mx.zeros((2, 3)),
    }
    rules = split_experts("experts", "experts", transposed=True, interleaved=True)
    result = apply_rules(rules, weights, None)
    assert {name.removeprefix(prefix): value.shape for name, value in result.items()} == {
        "experts.gate_proj.weight": (2, 4, 3),
        "experts.up_proj.weight": (2, 4, 3),
        "experts.gate_proj.bias": (2, 4),
        "experts.up_proj.bias": (2, 4),
        "experts.down_proj.weight": (2, 3, 4),
        "experts.down_proj.bias": (2, 3),
    }
    up = result[f"{prefix}experts.up_proj.weight"]
    assert mx.array_equal(up, gate_up[:, :, 1::2].swapaxes(1, 2)).item()
    assert apply_rules(rules, result, None).keys() == result.keys()
