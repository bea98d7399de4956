"""K-EXAONE: EXAONE 4's attention before norms of the input, corrected sigmoid routing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.exaone4 import Exaone4Config
from mlxlm_models.families.glm4 import RULES
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.block import PRE_NORM, BlockSpec
from mlxlm_models.rules import Drop, Rename


@dataclass(frozen=True, kw_only=True)
class ExaoneMoeConfig(GroupedMoEConfig, Exaone4Config):
    aliases: ClassVar[Mapping[str, str]] = {"num_shared_experts": "n_shared_experts"}

    num_experts: int = 64
    num_experts_per_tok: int = 8
    n_shared_experts: int | None = 1
    first_k_dense_replace: int = 1
    routed_scaling_factor: float = 2.5
    mlp_layer_types: list[str] | None = None
    is_moe_layer: list[bool] | None = None

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), norms=PRE_NORM)

    def has_experts(self, layer: int) -> bool:
        if self.mlp_layer_types is not None:
            return self.mlp_layer_types[layer] == "sparse"
        if self.is_moe_layer is not None:
            return self.is_moe_layer[layer]
        return super().has_experts(layer)


ARCHITECTURE = Architecture(
    "exaone_moe",
    ExaoneMoeConfig,
    causal_lm,
    (
        Drop("mtp.*", "model.mtp.*"),
        Rename(r"(.*)\.mlp\.e_score_correction_bias", r"\1.mlp.gate.e_score_correction_bias"),
        *RULES,
    ),
)
