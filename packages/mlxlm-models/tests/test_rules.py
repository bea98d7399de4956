from types import SimpleNamespace

import mlx.core as mx
import pytest
from mlxlm_models.errors import WeightsError
from mlxlm_models.rules import (
    COMMON_RULES,
    Drop,
    DropWhen,
    Rename,
    Split,
    Stack,
    Transpose,
    apply_rules,
    rename_path,
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
