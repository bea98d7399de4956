from .base import Case, case

CASES: dict[str, Case] = {
    "qwen2": case(model_type="qwen2"),
    "qwen2_window": case(
        {"use_sliding_window": False},
        {"max_window_layers": 0},
        model_type="qwen2",
        use_sliding_window=True,
        sliding_window=8,
        max_window_layers=1,
    ),
    "qwen3": case(model_type="qwen3", head_dim=16),
    "qwen3_bias_window": case(
        {"use_sliding_window": False},
        model_type="qwen3",
        head_dim=8,
        attention_bias=True,
        use_sliding_window=True,
        sliding_window=8,
        max_window_layers=1,
    ),
}
