from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture
from mlxlm_models.rules import apply_rules

TEXT = {
    "vocab_size": 16,
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def config(model_type: str, **keys: Any) -> Any:
    return get_architecture(model_type).config.from_dict({"model_type": model_type} | keys)


def test_the_text_part_says_what_it_is() -> None:
    assert config("mistral3", text_config=TEXT).text_architecture.model_type == "mistral"
    made = config("mistral3", text_config=TEXT | {"model_type": "ministral3", "head_dim": 4})
    assert made.text_architecture.model_type == "ministral3"
    assert config("qwen3_vl", text_config=TEXT).text_architecture.model_type == "qwen3"


def test_older_configs_have_no_text_part() -> None:
    made = config("qwen2_vl", **TEXT, vision_config={}, tie_word_embeddings=True)
    assert made.text_architecture.model_type == "qwen2"
    assert made.text.tie_word_embeddings
    assert made.text.rope_theta == 1000000.0


def test_ties_are_said_outside_or_inside() -> None:
    outside = config("qwen3_vl", text_config=TEXT, tie_word_embeddings=True)
    assert outside.text.tie_word_embeddings
    both = TEXT | {"tie_word_embeddings": False}
    assert not config("qwen3_vl", text_config=both, tie_word_embeddings=True).text.decoder().tied


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match="'qwen3_vl_text' lacks 'hidden_size'"):
        config("qwen3_vl", text_config={"vocab_size": 8})


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model.", "model."])
def test_every_spelling_of_names_is_one(prefix: str) -> None:
    arch = get_architecture("qwen2_vl")
    made = config("qwen2_vl", text_config=TEXT)
    names = {
        f"{prefix}norm.weight": mx.zeros(1),
        "visual.blocks.0.attn.qkv.weight": mx.zeros(1),
        "model.visual.merger.mlp.0.weight": mx.zeros(1),
        "lm_head.weight": mx.zeros(1),
    }
    assert arch.sanitize(names, made).keys() == {
        "language_model.model.norm.weight",
        "language_model.lm_head.weight",
    }


@pytest.mark.parametrize("published", [True, False])
def test_experts_of_qwen3_vl_come_either_way_round(published: bool) -> None:
    arch = get_architecture("qwen3_vl_moe")
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6}
    made = config("qwen3_vl_moe", text_config=TEXT | experts | {"head_dim": 4})
    prefix = "model.language_model.layers.0.mlp.experts."
    gate_up = mx.random.normal((2, 12, 8), key=mx.random.key(0))
    down = mx.random.normal((2, 8, 6), key=mx.random.key(1))
    if published:
        given = {"gate_up_proj": gate_up.swapaxes(1, 2), "down_proj": down.swapaxes(1, 2)}
    else:
        given = {"gate_up_proj": gate_up, "down_proj": down}
    result = apply_rules(arch.rules, {prefix + k: v for k, v in given.items()}, made)
    out = "language_model.model.layers.0.mlp.switch_mlp."
    expected = {"gate_proj": gate_up[:, :6], "up_proj": gate_up[:, 6:], "down_proj": down}
    assert result.keys() == {f"{out}{name}.weight" for name in expected}
    for name, value in expected.items():
        assert mx.array_equal(result[f"{out}{name}.weight"], value).item()
