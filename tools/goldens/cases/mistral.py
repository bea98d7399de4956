from .base import Case, case

CASES: dict[str, Case] = {
    "mistral": case({"sliding_window": None}, model_type="mistral", sliding_window=8),
    "mistral_full": case(model_type="mistral", sliding_window=None, head_dim=16),
}
