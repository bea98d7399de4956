"""DeepSeek-V3 and R1, and Kimi K2: latent attention, corrected sigmoid routing."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.deepseek_v2 import RULES
from mlxlm_models.families.mla import MLAConfig
from mlxlm_models.families.moe import GroupedMoEConfig


@dataclass(frozen=True, kw_only=True)
class DeepSeekV3Config(MLAConfig, GroupedMoEConfig):
    first_k_dense_replace: int = 3
    n_shared_experts: int | None = 1
    n_group: int | None = 8
    topk_group: int | None = 4
    routed_scaling_factor: float = 2.5


ARCHITECTURE = Architecture("deepseek_v3", DeepSeekV3Config, causal_lm, RULES)
