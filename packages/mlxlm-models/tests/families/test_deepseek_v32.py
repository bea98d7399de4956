from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture

BASE = {
    "vocab_size": 16,
    "hidden_size": 32,
    "intermediate_size": 8,
    "num_attention_heads": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}


def config(layers: int = 6, **keys: Any) -> Any:
    data = BASE | {"num_hidden_layers": layers, "model_type": "glm_moe_dsa"} | keys
    return get_architecture("glm_moe_dsa").config.from_dict(data)


@pytest.mark.parametrize(
    ("keys", "kinds"),
    [
        ({}, "FFFFFF"),
        ({"indexer_types": ["full", "shared", "full", "shared", "shared", "full"]}, "FSFSSF"),
        ({"index_topk_pattern": "FSSFSS"}, "FSSFSS"),
        ({"index_topk_freq": 2}, "FFSFSF"),
        ({"index_topk_freq": 3, "index_skip_topk_offset": 1}, "FSSFSS"),
    ],
)
def test_which_layers_choose(keys: Any, kinds: str) -> None:
    assert "".join("F" if kind == "full" else "S" for kind in config(**keys).kinds()) == kinds


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        (["full"] * 5, "full or shared for each of 6 layers"),
        (["full"] * 5 + ["half"], "full or shared for each of 6 layers"),
        (["shared"] + ["full"] * 5, "no layer comes before the first"),
    ],
)
def test_kinds_that_cannot_be_are_refused(kinds: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"'indexer_types': .*{problem}"):
        config(indexer_types=kinds)


def test_adapters_leave_indexers_alone() -> None:
    arch = get_architecture("glm_moe_dsa")
    made: Any = config(2, kv_lora_rank=8, q_lora_rank=8)
    paths = arch.adapters(arch.build(made))
    assert any(path.endswith("self_attn.q_b_proj") for path in paths)
    assert not [path for path in paths if "indexer" in path]
