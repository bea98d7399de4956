from .base import VISION, YARN, Case, case, tiny

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
CASES: dict[str, Case] = {
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
}
