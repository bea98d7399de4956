"""Mellum 2: Qwen 3's experts, and positions that differ between whole and windowed layers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.families.qwen_moe import RULES
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.rules import Drop

DEFAULT_ROPE: Mapping[str, Any] = {
    FULL: {"rope_theta": 500000.0},
    SLIDING: {"rope_theta": 10000.0},
}


@dataclass(frozen=True, kw_only=True)
class MellumConfig(MoEConfig):
    head_dim: int | None = 128
    num_key_value_heads: int | None = 4
    num_experts: int = 64
    num_experts_per_tok: int = 8
    moe_intermediate_size: int | None = 896
    sliding_window: int | None = 1024
    mlp_layer_types: list[str] | None = None

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm())

    def has_experts(self, layer: int) -> bool:
        kinds = self.mlp_layer_types
        return kinds is None or kinds[layer] == "sparse"

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        if self.rope_parameters is None and self.rope_scaling is None:
            return DEFAULT_ROPE[layer_type]  # type: ignore[no-any-return]
        return super().rope_values(layer_type)


ARCHITECTURE = Architecture("mellum", MellumConfig, causal_lm, (Drop("mtp.*"), *RULES))
