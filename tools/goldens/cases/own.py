"""Types that transformers lacks, by `forward`."""

from typing import Any

from .base import Case, Config, tiny

_SAME: Config = {}


def own(*without: Config, peer: Config | None = _SAME, repeats: int = 1, **config: Any) -> Case:
    return Case(config, list(without), "forward", peer=peer, peer_repeats=repeats)


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
}
