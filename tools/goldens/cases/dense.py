"""Decoders of families with one or two types each."""

from .base import LLAMA3, NO_SCALING, YARN, Case, Config, case, tiny


def gpt2(**changes: object) -> Config:
    return {
        "model_type": "gpt2",
        "vocab_size": 48,
        "n_embd": 32,
        "n_head": 4,
        "n_layer": 2,
        "n_positions": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


WINDOWED = {"num_hidden_layers": 4, "sliding_window": 8}
CASES: dict[str, Case] = {
    "cohere": case(
        {"logit_scale": 1.0},
        {"layer_norm_eps": 1.0},
        model_type="cohere",
        use_qk_norm=True,
        logit_scale=0.25,
        tie_word_embeddings=True,
    ),
    "cohere_plain": case(
        model_type="cohere", use_qk_norm=False, attention_bias=True, tie_word_embeddings=True
    ),
    "cohere2": case(
        {"sliding_window": 64},
        model_type="cohere2",
        logit_scale=0.25,
        tie_word_embeddings=True,
        **WINDOWED,
    ),
    "granite": case(
        {"embedding_multiplier": 1.0},
        {"residual_multiplier": 1.0},
        {"attention_multiplier": 1.0},
        {"logits_scaling": 1.0},
        model_type="granite",
        embedding_multiplier=3.0,
        residual_multiplier=0.4,
        attention_multiplier=0.2,
        logits_scaling=4.0,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=True,
    ),
    "olmo": case({"clip_qkv": None}, model_type="olmo", clip_qkv=1.0),
    "olmo2": case(model_type="olmo2", attention_bias=True),
    "olmo3": case(
        {"sliding_window": 64},
        {"rope_scaling": None},
        model_type="olmo3",
        rope_scaling=YARN | {"attention_factor": 1.2},
        **WINDOWED,
    ),
    "phi": case(
        {"partial_rotary_factor": 1.0},
        model_type="phi",
        num_key_value_heads=4,
        partial_rotary_factor=0.5,
        hidden_act="gelu_new",
        qk_layernorm=True,
    ),
    "starcoder2": case(
        {"sliding_window": None},
        model_type="starcoder2",
        sliding_window=8,
        norm_epsilon=1e-5,
        tie_word_embeddings=True,
    ),
    "gpt2": Case(gpt2(), [{"activation_function": "relu"}]),
    "gpt2_scaled": Case(
        gpt2(scale_attn_by_inverse_layer_idx=True, n_inner=40),
        [{"scale_attn_by_inverse_layer_idx": False}],
    ),
    "gpt_neox": case(
        {"rotary_pct": 1.0},
        {"use_parallel_residual": False},
        model_type="gpt_neox",
        rotary_pct=0.25,
        rotary_emb_base=50,
        num_key_value_heads=4,
        use_parallel_residual=True,
    ),
    "gpt_neox_sequential": case(
        model_type="gpt_neox",
        num_key_value_heads=4,
        rotary_pct=0.5,
        use_parallel_residual=False,
        attention_bias=False,
    ),
    "stablelm": case(
        {"partial_rotary_factor": 1.0},
        {"use_parallel_residual": False},
        model_type="stablelm",
        partial_rotary_factor=0.5,
        use_qkv_bias=True,
        qk_layernorm=True,
        use_parallel_residual=True,
    ),
    "stablelm_sequential": case(model_type="stablelm", num_key_value_heads=4),
    "exaone4": case(
        {"sliding_window": 64},
        model_type="exaone4",
        sliding_window_pattern="LLLG",
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        **WINDOWED,
    ),
    "exaone4_full": case(
        model_type="exaone4", sliding_window=None, layer_types=["full_attention"] * 2
    ),
    "ernie4_5": case(
        {"use_bias": False},
        model_type="ernie4_5",
        use_bias=True,
        head_dim=16,
        tie_word_embeddings=True,
    ),
    "seed_oss": case(
        model_type="seed_oss", head_dim=16, attention_bias=True, attention_out_bias=False
    ),
    "hunyuan_v1_dense": case(
        {"rope_scaling": {"type": "dynamic", "alpha": 1.0, "factor": 1.0}},
        model_type="hunyuan_v1_dense",
        head_dim=8,
        rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
        tie_word_embeddings=True,
    ),
    "helium": case(model_type="helium", head_dim=8, num_key_value_heads=4, mlp_bias=True),
    "nemotron": case(
        {"partial_rotary_factor": 1.0},
        {"hidden_act": "relu"},
        model_type="nemotron",
        partial_rotary_factor=0.5,
        norm_eps=1e-5,
        attention_bias=True,
    ),
    "apertus": case(NO_SCALING, model_type="apertus", rope_theta=100.0, rope_scaling=LLAMA3),
    "ministral3": case(
        model_type="ministral3",
        head_dim=16,
        rope_parameters=YARN
        | {
            "rope_theta": 100.0,
            "original_max_position_embeddings": 8,
            "llama_4_scaling_beta": 0.5,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
    ),
    "bitnet": case({"hidden_act": "silu"}, model_type="bitnet"),
    "glm4": case(
        {"partial_rotary_factor": 1.0}, model_type="glm4", head_dim=16, attention_bias=True
    ),
    "llama4_text": Case(
        tiny(
            "llama4_text",
            num_hidden_layers=2,
            head_dim=8,
            intermediate_size=16,
            intermediate_size_mlp=24,
            num_local_experts=4,
            num_experts_per_tok=1,
            moe_layers=[1],
            no_rope_layers=[1, 0],
            attention_chunk_size=8,
            floor_scale=4,
            attn_scale=1.5,
        ),
        [{"attn_scale": 0.1}, {"attention_chunk_size": 64}, {"use_qk_norm": False}],
    ),
    "llama4_text_plain": case(
        model_type="llama4_text",
        head_dim=8,
        intermediate_size=16,
        intermediate_size_mlp=24,
        num_local_experts=4,
        num_experts_per_tok=2,
        interleave_moe_layer_step=2,
        use_qk_norm=False,
        attn_temperature_tuning=False,
        rope_scaling=LLAMA3,
    ),
    "glm": case({"partial_rotary_factor": 1.0}, model_type="glm", head_dim=16),
    "gptj": Case(
        gpt2(model_type="gptj", rotary_dim=4, n_head=2, tie_word_embeddings=False),
        [{"rotary_dim": 8}],
    ),
    "gpt_bigcode": Case(gpt2(model_type="gpt_bigcode")),
    "gpt_bigcode_heads": Case(gpt2(model_type="gpt_bigcode", multi_query=False)),
    "exaone": case(NO_SCALING, model_type="exaone", rope_theta=100.0, rope_scaling=LLAMA3),
    "internlm3": case(model_type="internlm3", qkv_bias=True, bias=True, head_dim=16),
    "nanochat": case(
        {"final_logit_softcapping": None},
        model_type="nanochat",
        num_key_value_heads=4,
        final_logit_softcapping=3.0,
    ),
    "arcee": case({"hidden_act": "silu"}, model_type="arcee", mlp_bias=True),
    "internlm2": case(
        {"rope_theta": 50.0},
        model_type="internlm2",
        source="mlx-lm",
        bias=True,
        rope_theta=100.0,
        rope_scaling={"type": "linear", "factor": 2.0},
    ),
    "minicpm": case(
        {"scale_emb": 1.0},
        {"scale_depth": 5.0},
        {"dim_model_base": 32},
        model_type="minicpm",
        source="mlx-lm",
        rope_theta=100.0,
        scale_emb=12,
        scale_depth=1.4,
        dim_model_base=8,
    ),
    "mimo": case(model_type="mimo", source="mlx-lm"),
}
