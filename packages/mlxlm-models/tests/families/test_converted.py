"""Names that checkpoints converted by mlx-lm have, where public ones have others."""

from typing import Any

import mlx.core as mx
from mlxlm_models.registry import get_architecture


def test_dbrx_experts_may_come_apart(golden: Any) -> None:
    arch = get_architecture("dbrx")
    _, config = arch.create(golden("dbrx").config)
    at = "transformer.blocks.0.ffn"
    weights = {
        f"{at}.experts.{i}.{name}.{tensor}": mx.full((2, 2), i)
        for i in range(config.num_experts)
        for name in ("w1", "v1", "w2")
        for tensor in ("weight", "scales")
    }
    found = arch.sanitize(weights, config)
    assert found.keys() == {
        f"{at}.switch_mlp.{name}_proj.{tensor}"
        for name in ("gate", "up", "down")
        for tensor in ("weight", "scales")
    }
    assert found[f"{at}.switch_mlp.up_proj.weight"][3].tolist() == [[3, 3], [3, 3]]


def test_the_gate_of_laguna_may_be_one_further_down(golden: Any) -> None:
    arch = get_architecture("laguna")
    _, config = arch.create(golden("laguna").config)
    found = arch.sanitize({"model.layers.1.mlp.gate.proj.weight": mx.zeros((2, 2))}, config)
    assert list(found) == ["model.layers.1.mlp.gate.weight"]
