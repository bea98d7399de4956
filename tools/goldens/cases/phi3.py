from .base import NO_SCALING, Case, case

LONG = {
    "short_factor": [1.0, 1.1, 1.3, 1.7],
    "long_factor": [1.5, 2.0, 4.0, 7.0],
}
CASES: dict[str, Case] = {
    "phi3": case({"sliding_window": None}, model_type="phi3", sliding_window=8),
    "phi3_longrope_short": case(
        NO_SCALING,
        model_type="phi3",
        original_max_position_embeddings=32,
        rope_scaling={"type": "longrope"} | LONG,
    ),
    "phi3_longrope_long": case(
        NO_SCALING,
        {"original_max_position_embeddings": 32},
        model_type="phi3",
        # In one layer, keys don't depend on how earlier tokens were rotated.
        num_hidden_layers=1,
        original_max_position_embeddings=16,
        rope_scaling={"type": "longrope"} | LONG,
    ),
    "phi3_partial": case(
        {"partial_rotary_factor": 1.0},
        model_type="phi3",
        partial_rotary_factor=0.5,
    ),
    "phi3_partial_longrope": case(
        model_type="phi3",
        partial_rotary_factor=0.5,
        original_max_position_embeddings=32,
        rope_scaling={
            "type": "longrope",
            "short_factor": [1.0, 1.3],
            "long_factor": [2.0, 4.0],
        },
    ),
}
