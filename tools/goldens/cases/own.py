"""Types that transformers lacks, by `forward`."""

from collections.abc import Mapping
from typing import Any

from .base import LLAMA3, Case, Config, tiny

_SAME: Config = {}
_NONE: Mapping[str, str] = {}


def own(
    *without: Config,
    peer: Config | None = _SAME,
    repeats: int = 1,
    names: Mapping[str, str] = _NONE,
    beside: Config = _SAME,
    steps: bool = False,
    **config: Any,
) -> Case:
    return Case(
        config,
        list(without),
        "forward",
        peer=peer,
        beside=beside,
        peer_repeats=repeats,
        peer_names=names,
        peer_steps=steps,
    )


OPENELM = {
    "model_type": "openelm",
    "head_dim": 8,
    "num_transformer_layers": 2,
    "model_dim": 32,
    "vocab_size": 48,
    "ffn_dim_divisor": 8,
    "num_query_heads": [2, 4],
    "num_kv_heads": [1, 2],
    "ffn_multipliers": [1.0, 1.7],
    "rope_freq_constant": 100,
}
PHIXTRAL = {
    "vocab_size": 48,
    "n_embd": 32,
    "n_head": 4,
    "n_layer": 2,
    "rotary_dim": 4,
    "layer_norm_epsilon": 1e-5,
}
HUNYUAN = tiny(
    "hunyuan",
    num_hidden_layers=4,
    rope_theta=100.0,
    rope_scaling={"type": "dynamic", "alpha": 20.0, "factor": 1.0},
    tie_word_embeddings=True,
    attention_bias=False,
    use_qk_norm=True,
    use_cla=True,
    cla_share_factor=2,
    use_mixed_mlp_moe=True,
    num_experts=4,
    moe_topk=1,
    num_shared_expert=1,
)
CASES: dict[str, Case] = {
    "openelm": own({"rope_freq_constant": 10000}, **OPENELM),
    "openelm_untied": own(
        **OPENELM, share_input_output_layers=False, normalize_qk_projections=False
    ),
    "openelm_plain": own(
        peer=None,  # it reads `ffn_with_glu`, and builds the gate all the same
        **OPENELM,
        ffn_with_glu=False,
    ),
    "plamo": own(**tiny("plamo", n_shared_head=2, rope_theta=100.0)),
    "lille": own(
        {"rope_theta": 10000.0},
        model_type="lille-130m",
        vocab_size=48,
        block_size=64,
        layer_norm_eps=1e-5,
        n_embd=96,
        n_head=4,
        n_kv_heads=2,
        n_layer=2,
        rope_theta=100.0,
    ),
    "spark2_5": own(
        {"sliding_window": 64},
        {"headwise_attn_output_gate": False},
        {"gate_attn_act_mode": "silu"},
        **tiny("spark2_5", tie_word_embeddings=True, head_dim=16, sliding_window=8),
        attention_bias=True,
        mlp_bias=True,
        headwise_attn_output_gate=True,
        gate_attn_act_mode="sigmoid",
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={
            "sliding_attention": {"rope_theta": 50.0, "partial_rotary_factor": 1.0},
            "full_attention": {"rope_theta": 100.0, "partial_rotary_factor": 0.5},
        },
    ),
    "phixtral": own(
        {"num_experts_per_tok": 3},
        {"rotary_dim": 8},
        peer={"num_vocab": 48, "model_dim": 32, "num_heads": 4, "num_layers": 2},
        model_type="phixtral",
        **PHIXTRAL,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    "phixtral_dense": own(
        peer=None,  # it has experts always
        model_type="phi-msft",
        **PHIXTRAL,
    ),
    "klear": own(
        {"norm_topk_prob": False},
        {"mlp_only_layers": []},
        **tiny("Klear", num_hidden_layers=3, rope_theta=100.0),
        attention_bias=True,
        mlp_only_layers=[0],
        decoder_sparse_step=1,
        num_experts=4,
        num_experts_per_tok=2,
        n_shared_experts=2,
        moe_intermediate_size=8,
        norm_topk_prob=True,
    ),
    "step3p5": own(
        {"sliding_window": 64},
        {"rope_scaling": None},
        {"yarn_only_types": []},
        {"swiglu_limits": [0.0] * 3},
        {"swiglu_limits_shared": [0.0] * 3},
        {"use_head_wise_attn_gate": False},
        **tiny("step3p5", num_hidden_layers=3, head_dim=16, sliding_window=8),
        num_attention_groups=2,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        attention_other_setting={"num_attention_heads": 6, "num_attention_groups": 3},
        rope_theta=[100.0, 50.0, 60.0],
        partial_rotary_factors=[0.5, 1.0, 1.0],
        rope_scaling=LLAMA3,
        yarn_only_types=["full_attention"],
        use_head_wise_attn_gate=True,
        moe_num_experts=4,
        moe_top_k=2,
        moe_intermediate_size=8,
        share_expert_dim=8,
        moe_layers_enum="1,2",
        moe_router_scaling_factor=1.5,
        swiglu_limits=[0.0, 0.5, 0.0],
        swiglu_limits_shared=[0.8, 0.0, 0.5],
    ),
    "talkie": own(
        {"rope_theta": 10000.0},
        peer={"head_dim": 8},
        names={"embed.": "model.embed.", "blocks.": "model.blocks."},
        **tiny("talkie", num_key_value_heads=4, rope_theta=100.0),
    ),
    "hunyuan": own(
        {"use_cla": False},
        {"use_qk_norm": False},
        {"rope_scaling": {"type": "dynamic", "alpha": 1.0, "factor": 1.0}},
        **HUNYUAN,
    ),
    "hunyuan_top2": own(
        {"moe_topk": 1},
        peer=None,  # it doesn't normalise several choices
        **HUNYUAN | {"moe_topk": 2},
    ),
    "nemotron_nas": own(
        names={".linear_attn.": ".linear.", ".linear_mlp.": ".linear."},
        **tiny("nemotron-nas", num_hidden_layers=5, rope_theta=100.0),
        block_configs=[
            {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"n_heads_in_group": 2}, "ffn": {"no_op": True}},
            {"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 13.0}},
            {"attention": {"n_heads_in_group": 4}, "ffn": {"replace_with_linear": True}},
            {"attention": {"n_heads_in_group": 1}, "ffn": {"ffn_mult": 2.625}},
        ],
    ),
}
