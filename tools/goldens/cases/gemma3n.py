from .base import Case, case, tiny

GEMMA3N = {
    "num_hidden_layers": 4,
    "intermediate_size": [40, 40, 48, 40],
    "head_dim": 8,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 40,
    "altup_num_inputs": 3,
    "altup_active_idx": 0,
    "laurel_rank": 4,
    "activation_sparsity_pattern": [0.8, 0.0, 0.6, 0.0],
    "final_logit_softcapping": 3.0,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 100.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    },
    "pad_token_id": None,
    "tie_word_embeddings": True,
}
CASES: dict[str, Case] = {
    "gemma3n_text": case(
        {"final_logit_softcapping": 30.0},
        {"altup_correct_scale": False},
        {"activation_sparsity_pattern": [0.0, 0.0, 0.0, 0.0]},
        {"sliding_window": 64},
        model_type="gemma3n_text",
        **GEMMA3N,
    ),
    # transformers builds it with a vision tower of another library alone.
    "gemma3n": Case(
        {
            "model_type": "gemma3n",
            "text_config": tiny("gemma3n_text", **GEMMA3N)
            | {"rope_theta": 100.0, "rope_local_base_freq": 50.0}
            | {"altup_coef_clip": 120.0, "altup_correct_scale": True},
        },
        source="mlx-lm",
    ),
}
