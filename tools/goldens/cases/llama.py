from .base import LLAMA3, NO_SCALING, YARN, Case, case

CASES: dict[str, Case] = {
    "llama": case({"rope_theta": 50.0}, model_type="llama", rope_theta=500000.0),
    "llama_tied": case(
        {"tie_word_embeddings": False}, model_type="llama", tie_word_embeddings=True
    ),
    "llama_biases": case(model_type="llama", attention_bias=True, mlp_bias=True),
    "llama_ungrouped": case(model_type="llama", num_key_value_heads=None, head_dim=6),
    "llama_linear": case(
        NO_SCALING, model_type="llama", rope_scaling={"type": "linear", "factor": 4.0}
    ),
    "llama_dynamic": case(
        NO_SCALING,
        model_type="llama",
        max_position_embeddings=16,
        rope_scaling={"type": "dynamic", "factor": 2.0},
    ),
    "llama_llama3": case(NO_SCALING, model_type="llama", rope_theta=100.0, rope_scaling=LLAMA3),
    "llama_parameters": case(
        {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
        model_type="llama",
        rope_parameters=LLAMA3 | {"rope_theta": 100.0},
    ),
    "llama_yarn": case(NO_SCALING, model_type="llama", rope_scaling=YARN),
    "llama_yarn_mscale": case(
        {"rope_scaling": YARN},
        model_type="llama",
        rope_scaling=YARN
        | {"mscale": 1.5, "mscale_all_dim": 0.5, "beta_fast": 8, "beta_slow": 2, "truncate": False},
    ),
}
