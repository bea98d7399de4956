from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.families.minimax_m3 import MiniMaxM3Config

BASE = {
    "vocab_size": 16,
    "hidden_size": 32,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "layer_types": ["full_attention", "minimax_m3_sparse"],
}


def config(**keys: Any) -> MiniMaxM3Config:
    return MiniMaxM3Config.from_dict(BASE | {"model_type": "minimax_m3_vl_text"} | keys)


def test_a_published_config_says_its_activation_that_we_call_otherwise() -> None:
    assert config(hidden_act="swigluoai").gate().alpha == 1.702


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"index_n_heads": 2}, "'index_n_heads': 2 heads choose for 4"),
        ({"index_local_blocks": 17}, "'index_local_blocks': 17 of 16"),
        (
            {"sparse_attention_config": {"sparse_init_block": 1}},
            "'sparse_init_block': 1 is not 0",
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "nor minimax_m3_sparse"),
    ],
)
def test_what_cannot_be_is_refused(keys: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**keys)
