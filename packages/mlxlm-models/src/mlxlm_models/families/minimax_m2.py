"""MiniMax-M2: corrected sigmoid routing, queries and keys normalised as wholes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.mixtral import RULES
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import drop_extra_layers


@dataclass(frozen=True, kw_only=True)
class MiniMaxM2Config(MoEConfig):
    head_dim: int | None = 128
    num_key_value_heads: int | None = 8
    rope_theta: float = 5000000.0
    rotary_dim: int | None = None
    num_experts: int = 256
    num_experts_per_tok: int = 8

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(mlp="block_sparse_moe"))

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm(), qk_norm_over="projection")

    def router(self) -> RouterSpec:
        return replace(super().router(), scoring="sigmoid", correction="block")

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = super().rope_values(layer_type)
        if self.rotary_dim is None or "partial_rotary_factor" in values:
            return values
        return {**values, "partial_rotary_factor": self.rotary_dim / self.head_size}


ARCHITECTURE = Architecture("minimax_m2", MiniMaxM2Config, causal_lm, (drop_extra_layers, *RULES))
