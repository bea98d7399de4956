from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture

ARCH = get_architecture("longcat_flash")
BASE = {
    "model_type": "longcat_flash",
    "vocab_size": 16,
    "hidden_size": 32,
    "ffn_hidden_size": 8,
    "num_attention_heads": 4,
    "n_routed_experts": 4,
    "moe_topk": 2,
}


def config(**keys: Any) -> Any:
    return ARCH.config.from_dict(BASE | keys)


def test_layers_are_whole_ones_or_counted_in_halves() -> None:
    assert config(num_layers=3).num_hidden_layers == 3
    assert config(num_hidden_layers=6).num_hidden_layers == 3
    assert config(num_layers=3, num_hidden_layers=6).num_hidden_layers == 3


def test_other_experts_without_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match="'zero_expert_type': 'drop' is not identity"):
        config(num_layers=1, zero_expert_type="drop")
    assert config(num_layers=1, zero_expert_type="drop", zero_expert_num=0)


def test_what_idle_experts_and_further_tokens_have_is_dropped() -> None:
    names = [f"model.layers.0.mlp.experts.{i}.up_proj.weight" for i in range(6)]
    weights = {name: mx.zeros((2, 2)) for name in [*names, "model.mtp.layers.0.weight"]}
    made = ARCH.sanitize(weights, config(num_layers=1))
    assert list(made) == ["model.layers.0.mlp.switch_mlp.up_proj.weight"]
    assert made["model.layers.0.mlp.switch_mlp.up_proj.weight"].shape == (4, 2, 2)
