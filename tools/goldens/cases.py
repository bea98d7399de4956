"""The golden cases: one per family, and one per special path.

`without` lists changes to the config that have to change the logits, which shows that the
case exercises what it is named after.
"""

from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True)
class Case:
    config: Config
    without: list[Config] = field(default_factory=list)


def tiny(model_type: str, **changes: Any) -> Config:
    return {
        "model_type": model_type,
        "vocab_size": 48,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


def case(*without: Config, model_type: str, **changes: Any) -> Case:
    return Case(tiny(model_type, **changes), list(without))


NO_SCALING = {"rope_scaling": None, "rope_parameters": None}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {
    "short_factor": [1.0, 1.1, 1.3, 1.7],
    "long_factor": [1.5, 2.0, 4.0, 7.0],
}
GEMMA2 = {
    "head_dim": 8,
    "query_pre_attn_scalar": 12,
    "attn_logit_softcapping": 2.0,
    "final_logit_softcapping": 3.0,
    "sliding_window": 8,
    "tie_word_embeddings": True,
}
GEMMA3 = {
    "num_hidden_layers": 3,
    "head_dim": 8,
    "query_pre_attn_scalar": 12,
    "sliding_window": 8,
    "sliding_window_pattern": 2,
    "rope_theta": 100000.0,
    "rope_local_base_freq": 100.0,
    "rope_scaling": {"rope_type": "linear", "factor": 4.0},
    "tie_word_embeddings": True,
}
VISION = {
    "model_type": "siglip_vision_model",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}

CASES: dict[str, Case] = {
    "llama": case({"rope_theta": 50.0}, model_type="llama", rope_theta=500000.0),
    "llama_tied": case(
        {"tie_word_embeddings": False}, model_type="llama", tie_word_embeddings=True
    ),
    "llama_biases": case(model_type="llama", attention_bias=True, mlp_bias=True),
    "llama_ungrouped": case(model_type="llama", num_key_value_heads=None, head_dim=6),
    "llama_linear": case(
        NO_SCALING, model_type="llama", rope_scaling={"type": "linear", "factor": 4.0}
    ),
    "llama_dynamic": case(
        NO_SCALING,
        model_type="llama",
        max_position_embeddings=16,
        rope_scaling={"type": "dynamic", "factor": 2.0},
    ),
    "llama_llama3": case(NO_SCALING, model_type="llama", rope_theta=100.0, rope_scaling=LLAMA3),
    "llama_parameters": case(
        {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
        model_type="llama",
        rope_parameters=LLAMA3 | {"rope_theta": 100.0},
    ),
    "llama_yarn": case(NO_SCALING, model_type="llama", rope_scaling=YARN),
    "llama_yarn_mscale": case(
        {"rope_scaling": YARN},
        model_type="llama",
        rope_scaling=YARN
        | {"mscale": 1.5, "mscale_all_dim": 0.5, "beta_fast": 8, "beta_slow": 2, "truncate": False},
    ),
    "mistral": case({"sliding_window": None}, model_type="mistral", sliding_window=8),
    "mistral_full": case(model_type="mistral", sliding_window=None, head_dim=16),
    "qwen2": case(model_type="qwen2"),
    "qwen2_window": case(
        {"use_sliding_window": False},
        {"max_window_layers": 0},
        model_type="qwen2",
        use_sliding_window=True,
        sliding_window=8,
        max_window_layers=1,
    ),
    "qwen3": case(model_type="qwen3", head_dim=16),
    "qwen3_bias_window": case(
        {"use_sliding_window": False},
        model_type="qwen3",
        head_dim=8,
        attention_bias=True,
        use_sliding_window=True,
        sliding_window=8,
        max_window_layers=1,
    ),
    "smollm3": case({"no_rope_layer_interval": 9}, model_type="smollm3", num_hidden_layers=4),
    "smollm3_window": case(
        {"no_rope_layers": [1, 1, 1]},
        {"use_sliding_window": False},
        model_type="smollm3",
        num_hidden_layers=3,
        no_rope_layers=[0, 1, 0],
        use_sliding_window=True,
        sliding_window=8,
    ),
    "gemma": case(
        {"hidden_act": "relu"},
        model_type="gemma",
        head_dim=16,
        hidden_act="gelu",
        tie_word_embeddings=True,
    ),
    "gemma2": case(
        {"attn_logit_softcapping": None},
        {"final_logit_softcapping": None},
        {"query_pre_attn_scalar": 8},
        {"sliding_window": 64},
        model_type="gemma2",
        **GEMMA2,
    ),
    "gemma3_text": case(
        {"sliding_window": 64},
        {"rope_local_base_freq": 100000.0},
        {"rope_scaling": None},
        {"sliding_window_pattern": 3},
        model_type="gemma3_text",
        **GEMMA3,
    ),
    "gemma3_text_parameters": case(
        model_type="gemma3_text",
        num_hidden_layers=3,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=8,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters={
            "full_attention": YARN | {"rope_theta": 100000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
        tie_word_embeddings=False,
        final_logit_softcapping=3.0,
    ),
    "gemma3": Case(
        {
            "model_type": "gemma3",
            "text_config": tiny("gemma3_text", **GEMMA3),
            "vision_config": VISION,
            "mm_tokens_per_image": 4,
            "image_token_index": 46,
            "boi_token_index": 45,
            "eoi_token_index": 44,
        }
    ),
    "phi3": case({"sliding_window": None}, model_type="phi3", sliding_window=8),
    "phi3_longrope_short": case(
        NO_SCALING,
        model_type="phi3",
        original_max_position_embeddings=32,
        rope_scaling={"type": "longrope"} | LONG,
    ),
    "phi3_longrope_long": case(
        NO_SCALING,
        {"original_max_position_embeddings": 32},
        model_type="phi3",
        # In one layer, keys don't depend on how earlier tokens were rotated.
        num_hidden_layers=1,
        original_max_position_embeddings=16,
        rope_scaling={"type": "longrope"} | LONG,
    ),
    "phi3_partial": case(
        {"partial_rotary_factor": 1.0},
        model_type="phi3",
        partial_rotary_factor=0.5,
    ),
    "phi3_partial_longrope": case(
        model_type="phi3",
        partial_rotary_factor=0.5,
        original_max_position_embeddings=32,
        rope_scaling={
            "type": "longrope",
            "short_factor": [1.0, 1.3],
            "long_factor": [2.0, 4.0],
        },
    ),
}
