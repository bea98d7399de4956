"""Qwen 3: Qwen 2 with normalised queries and keys, and no biases unless it says so."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.qwen2 import Qwen2Config
from mlxlm_models.layers.attention import AttentionSpec


@dataclass(frozen=True, kw_only=True)
class Qwen3Config(Qwen2Config):
    head_dim: int | None = 128

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qkv_bias=self.attention_bias, qk_norm=self.norm())


ARCHITECTURE = Architecture("qwen3", Qwen3Config, causal_lm)
