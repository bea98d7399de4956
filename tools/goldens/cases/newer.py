from .base import YARN, Case, case
from .deepseek import MLA

_OTHERS = {"first_k_dense_replace", "num_experts_per_tok", "moe_intermediate_size"}
LONGCAT = {key: value for key, value in MLA.items() if key not in _OTHERS}
CASES: dict[str, Case] = {
    "mellum": case(
        {"sliding_window": 64},
        {"norm_topk_prob": False},
        model_type="mellum",
        num_hidden_layers=3,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=8,
        norm_topk_prob=True,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"],
        rope_parameters={
            "full_attention": YARN | {"rope_theta": 100.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    ),
    "longcat_flash": case(
        {"zero_expert_num": 0},
        {"routed_scaling_factor": 1.0},
        model_type="longcat_flash",
        num_layers=2,
        num_hidden_layers=4,  # as transformers counts
        ffn_hidden_size=40,
        expert_ffn_hidden_size=8,
        moe_topk=3,
        zero_expert_num=4,
        head_dim=4,  # of what is rotated
        attention_bias=True,
        routed_scaling_factor=1.5,
        **LONGCAT,
    ),
}
