from .base import Case, case, tiny

GEMMA4 = {
    "num_hidden_layers": 4,
    "head_dim": 8,
    "global_head_dim": 16,
    "sliding_window": 8,
    "layer_types": [
        "sliding_attention",
        "full_attention",
        "sliding_attention",
        "full_attention",
    ],
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 48,
    "final_logit_softcapping": 3.0,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.5,
            "rope_theta": 100.0,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    },
    "pad_token_id": None,
    "tie_word_embeddings": True,
}
WITHIN = {"pad_token_id": 0, "tie_word_embeddings": False}
NONE = {"tie_word_embeddings": False, "vision_config": None, "audio_config": None}
CASES: dict[str, Case] = {
    "gemma4_text": case(
        {"final_logit_softcapping": None},
        {"sliding_window": 64},
        model_type="gemma4_text",
        **GEMMA4,
    ),
    "gemma4_text_experts": case(
        {"top_k_experts": 1},
        model_type="gemma4_text",
        **GEMMA4
        | {
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "num_kv_shared_layers": 0,
            "hidden_size_per_layer_input": 0,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 8,
        },
    ),
    "gemma4": Case(
        {"model_type": "gemma4", "text_config": tiny("gemma4_text", **GEMMA4 | WITHIN)} | NONE
    ),
    "gemma4_unified": Case(
        {
            "model_type": "gemma4_unified",
            "text_config": tiny(
                "gemma4_unified_text",
                **{key: GEMMA4[key] for key in GEMMA4 if "per_layer_input" not in key} | WITHIN,
                attention_k_eq_v=True,
            ),
        }
        | NONE
    ),
}
