"""Youtu-LLM: DeepSeek's latent attention without experts."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.mla import MLAConfig, split_key_value_heads
from mlxlm_models.rules import COMMON_RULES


@dataclass(frozen=True, kw_only=True)
class YoutuConfig(MLAConfig):
    rope_theta: float = 1600000.0
    tie_word_embeddings: bool = True


ARCHITECTURE = Architecture(
    "youtu_llm", YoutuConfig, causal_lm, (*COMMON_RULES, split_key_value_heads)
)
