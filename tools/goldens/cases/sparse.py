"""Attention to the tokens that an indexer chooses."""

from .base import VISION, Case, Config, case, tiny
from .deepseek import MLA

INDEXED = {
    "index_n_heads": 16,  # of few, all are often zero, and the choice is nobody's
    "index_head_dim": 8,
    "index_topk": 5,
    "n_shared_experts": 1,
    "routed_scaling_factor": 2.5,
    "attention_bias": True,
    **MLA,
}
_BLOCKS = {
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rotary_dim": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    "dense_intermediate_size": 24,
    "shared_intermediate_size": 12,
    "intermediate_size": 8,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "routed_scaling_factor": 2.0,
    "swiglu_limit": 0.5,
    "num_hidden_layers": 3,
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
    "index_n_heads": 2,
    "index_head_dim": 12,
    "index_block_size": 3,
    "index_topk_blocks": 3,
    "index_local_blocks": 1,
}
_OLDER = {
    key: value
    for key, value in tiny("minimax_m3_vl_text", **_BLOCKS).items()
    if not key.startswith("index_") and key not in ("layer_types", "mlp_layer_types")
} | {
    "sparse_attention_config": {
        "sparse_num_index_heads": 2,
        "sparse_index_dim": 12,
        "sparse_block_size": 2,
        "sparse_topk_blocks": 4,
        "sparse_local_block": 2,
        "sparse_attention_freq": [0, 1, 1],
    },
    "moe_layer_freq": [0, 1, 1],
}
_VISION = VISION | {"model_type": "minimax_m3_vl_vision", "hidden_size": 24}


def block_sparse(**changes: object) -> Config:
    return {"text_config": tiny("minimax_m3_vl_text", **_BLOCKS | changes)}


CASES: dict[str, Case] = {
    "deepseek_v32": case(
        {"index_topk": 64},
        {"topk_group": 4},
        {"rope_scaling": None},
        model_type="deepseek_v32",
        num_hidden_layers=3,
        n_group=4,
        topk_group=1,
        norm_topk_prob=True,
        **INDEXED,
    ),
    "glm_moe_dsa": case(
        {"index_topk": 64},
        {"indexer_types": ["full", "shared", "shared", "full"]},
        model_type="glm_moe_dsa",
        num_hidden_layers=4,
        indexer_types=["full", "full", "shared", "full"],
        **INDEXED | {"rope_scaling": None},
    ),
    "minimax_m3_vl": Case(
        {"model_type": "minimax_m3_vl", "vision_config": _VISION, "projector_hidden_size": 8}
        | block_sparse(),
        [
            block_sparse(index_topk_blocks=64),
            block_sparse(index_local_blocks=2),
            block_sparse(routed_scaling_factor=1.0),
            block_sparse(swiglu_limit=7.0),
        ],
    ),
    "minimax_m3_vl_older": Case(
        {"model_type": "minimax_m3_vl", "vision_config": _VISION, "projector_hidden_size": 8}
        | {"text_config": _OLDER},
        [{"text_config": _OLDER | {"sparse_attention_config": {}}}],
    ),
}
