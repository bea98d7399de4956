"""Decoders from before Llama, which are still the most downloaded."""

from .base import Case, Config, case


def keys(model_type: str, **changes: object) -> Config:
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return {"model_type": model_type, "vocab_size": 48, **ends} | changes


BLOOM = {"hidden_size": 48, "n_head": 6, "n_layer": 2}
FALCON = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}
MPT = {"d_model": 48, "n_heads": 6, "n_layers": 2, "max_seq_len": 64}
OPT = {
    "hidden_size": 32,
    "word_embed_proj_dim": 32,
    "ffn_dim": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
CASES: dict[str, Case] = {
    "bloom": Case(keys("bloom", **BLOOM)),
    "falcon": Case(keys("falcon", **FALCON), [{"multi_query": False}]),
    "falcon_new": Case(
        keys("falcon", **FALCON, new_decoder_architecture=True, num_kv_heads=2, bias=True)
    ),
    "falcon_rw": Case(
        keys("falcon", **FALCON, alibi=True, multi_query=False, parallel_attn=False, bias=True)
    ),
    "mpt": Case(keys("mpt", **MPT)),
    "mpt_clipped": Case(
        keys("mpt", **MPT | {"n_heads": 4}, attn_config={"clip_qkv": 1.0, "softmax_scale": 0.2})
    ),
    "opt": Case(keys("opt", **OPT)),
    "opt_after": Case(keys("opt", **OPT, do_layer_norm_before=False)),
    "gpt_neo": Case(
        keys(
            "gpt_neo",
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=8,
            max_position_embeddings=64,
        ),
        [{"window_size": 64}],
    ),
    "ministral": case(
        {"sliding_window": 64},
        model_type="ministral",
        head_dim=8,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "granitemoeshared": case(
        {"shared_intermediate_size": 0},
        model_type="granitemoeshared",
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=16,
        shared_intermediate_size=24,
        residual_multiplier=0.4,
    ),
}
