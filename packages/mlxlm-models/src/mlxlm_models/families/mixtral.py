"""Mixtral: Mistral with two of eight experts in every layer."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class MixtralConfig(MoEConfig):
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1000000.0
    num_experts: int = 8
    num_experts_per_tok: int = 2

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(mlp="block_sparse_moe"))

    def layer_type(self, layer: int) -> str:
        return FULL if self.sliding_window is None else SLIDING


RULES = (
    *COMMON_RULES,
    *stack_experts(
        "block_sparse_moe.experts", "block_sparse_moe.switch_mlp", names=("w1", "w3", "w2")
    ),
)
ARCHITECTURE = Architecture("mixtral", MixtralConfig, causal_lm, RULES)
