"""Attention to the tokens that an indexer chooses."""

from .base import Case, case
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
}
