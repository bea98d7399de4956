"""MiMo: Qwen 2 with further layers for further tokens, which are left out."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.qwen2 import Qwen2Config
from mlxlm_models.rules import COMMON_RULES, Drop


@dataclass(frozen=True, kw_only=True)
class MiMoConfig(Qwen2Config):
    max_position_embeddings: int | None = 32768


ARCHITECTURE = Architecture(
    "mimo", MiMoConfig, causal_lm, (Drop("model.mtp_layers.*"), *COMMON_RULES)
)
