from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.registry import get_architecture

BASE = {
    "vocab_size": 16,
    "hidden_size": 32,
    "intermediate_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}


def config(model_type: str = "llama", **keys: Any) -> Any:
    return get_architecture(model_type).config.from_dict(BASE | {"model_type": model_type} | keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_key_value_heads": 3}, "'num_key_value_heads': 4 heads cannot share 3 evenly"),
        ({"num_attention_heads": 5}, "'num_attention_heads': hidden_size 32 is not a multiple"),
        ({"num_hidden_layers": 0}, "'num_hidden_layers': 0 is not above zero"),
        ({"num_key_value_heads": 0}, "'num_key_value_heads': 0 is not above zero"),
        ({"sliding_window": -1}, "'sliding_window': -1 is not above zero"),
        ({"layer_types": ["full_attention"]}, "'layer_types': it names 1 of 4 layers"),
        ({"layer_types": ["linear"] * 4}, "'layer_types': 'linear' is neither"),
        ({"layer_types": ["sliding_attention"] * 4}, "'sliding_window': layer_types has"),
        ({"hidden_act": "sine"}, "'hidden_act': 'sine' is none of gelu"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "'rope_type': 'spiral' is none of"),
        ({"head_dim": 7}, "'partial_rotary_factor': it makes 7 rotated features"),
    ],
)
def test_impossible_shapes_are_refused_by_name(keys: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"'llama' has an unusable {message}"):
        config(**keys).decoder()


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 50.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 50.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}},
        {"rope_theta": 50.0, "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 7.0},
            }
        },
    ],
)
def test_every_spelling_of_rope_is_one(keys: Any) -> None:
    assert config(**keys).rope(0) == RopeSpec(8, 50.0, scale=0.5)


def test_the_default_rope_needs_no_settings() -> None:
    assert config().rope(0) == RopeSpec(8, 10000.0)


def test_a_window_that_holds_the_whole_context_is_none() -> None:
    assert [config("mistral", sliding_window=64).window(i) for i in range(2)] == [64, 64]
    assert config("mistral", sliding_window=128).window(0) is None
    assert config("mistral", sliding_window=None).window(0) is None
    assert config("mistral", max_position_embeddings=8192).window(0) == 4096


def test_layer_types_choose_the_layers_with_a_window() -> None:
    kinds = ["full_attention", "sliding_attention"] * 2
    chosen = config(sliding_window=8, layer_types=kinds)
    assert [chosen.window(i) for i in range(4)] == [None, 8, None, 8]


def test_gemma3_fills_in_what_multimodal_configs_leave_out() -> None:
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    data = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}
    made = get_architecture("gemma3").config.from_dict(data)
    assert (made.vocab_size, made.hidden_size, made.head_size) == (262208, 2560, 256)
    assert (made.num_attention_heads, made.kv_heads) == (8, 4)
    assert [made.window(i) for i in (0, 4, 5)] == [1024, 1024, None]
    assert made.rope(0) == RopeSpec(256, 10000.0)
    assert made.rope(5) == RopeSpec(256, 1000000.0, scale=0.125)
    assert made.decoder().tied


def test_gemma3_without_its_text_part_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"lacks 'text_config'.*'gemma3_text'"):
        get_architecture("gemma3").config.from_dict(BASE | {"model_type": "gemma3"})


def test_smollm3_leaves_every_fourth_layer_without_positions() -> None:
    made = config("smollm3", num_key_value_heads=4)
    assert [made.rope(i) is None for i in range(4)] == [False, False, False, True]
    with pytest.raises(ConfigError, match="'no_rope_layers': it names 2 of 4 layers"):
        config("smollm3", no_rope_layers=[1, 0])


@pytest.mark.parametrize("kind", ["longrope", "su", "yarn"])
def test_phi3_calls_longrope_by_three_names(kind: str) -> None:
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    made = config(
        "phi3", original_max_position_embeddings=64, rope_scaling={"type": kind} | factors
    )
    assert made.rope(0).original_length == 64
