from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture

CONFIG: dict[str, Any] = {
    "model_type": "bailing_hybrid",
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 6,
    "num_attention_heads": 2,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
}


def test_the_last_layer_of_a_group_is_latent_attention() -> None:
    """Of one whole group, with the caches that follow."""
    model, _ = get_architecture("bailing_hybrid").create(CONFIG)
    kinds = [type(cache).__name__ for cache in model.make_cache()]
    assert kinds == ["ArraysCache"] * 5 + ["KVCache"]


def test_an_older_ling_under_the_same_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="'group_norm_size': it is of Ling 2.5"):
        get_architecture("bailing_hybrid").create(CONFIG | {"group_norm_size": 4})


def test_shared_experts_of_another_size_are_refused() -> None:
    changed = CONFIG | {"moe_intermediate_size": 8, "moe_shared_expert_intermediate_size": 16}
    with pytest.raises(ConfigError, match="16 is not 8"):
        get_architecture("bailing_moe_v3").create(changed)
