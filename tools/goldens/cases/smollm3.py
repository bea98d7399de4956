from .base import Case, case

CASES: dict[str, Case] = {
    "smollm3": case({"no_rope_layer_interval": 9}, model_type="smollm3", num_hidden_layers=4),
    "smollm3_window": case(
        {"no_rope_layers": [1, 1, 1]},
        {"use_sliding_window": False},
        model_type="smollm3",
        num_hidden_layers=3,
        no_rope_layers=[0, 1, 0],
        use_sliding_window=True,
        sliding_window=8,
    ),
}
