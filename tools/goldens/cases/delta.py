"""Kimi's delta attention beside latent attention."""

from .base import Case, Config, tiny

_SIZES: Config = {
    "num_key_value_heads": 4,
    "num_hidden_layers": 3,
    "kv_lora_rank": 16,
    "q_lora_rank": None,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "num_experts": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 8,
    "routed_scaling_factor": 1.5,
    "topk_group": 1,
}
_KIMI: Config = {
    "num_experts_per_token": 2,
    "num_expert_group": 1,
    "moe_renormalize": True,
    "first_k_dense_replace": 1,
    "linear_attn_config": {
        "full_attn_layers": [2],
        "kda_layers": [1, 3],
        "head_dim": 8,
        "num_heads": 2,
        "short_conv_kernel_size": 3,
    },
}
_LING: Config = {
    "head_dim": 8,
    "q_lora_rank": 16,
    "num_experts_per_tok": 2,
    "n_group": 4,
    "topk_group": 2,
    "norm_topk_prob": True,
    "first_k_dense_replace": 1,
    "layer_group_size": 2,
    "rope_theta": 100.0,
}

CASES: dict[str, Case] = {
    "kimi_linear": Case(
        tiny("kimi_linear", **_SIZES | _KIMI),
        [{"routed_scaling_factor": 1.0}, {"moe_renormalize": False}],
    ),
    "bailing_moe_v3": Case(
        tiny("bailing_moe_v3", **_SIZES | _LING),
        [{"kda_lower_bound": -1.0}, {"rope_theta": 10.0}, {"topk_group": 4}],
        known_as="bailing_hybrid",
    ),
    "bailing_moe_v3_unbounded": Case(
        tiny("bailing_moe_v3", kda_safe_gate=False, **_SIZES | _LING),
        [{"kda_safe_gate": True}],
        known_as="bailing_hybrid",
    ),
}
