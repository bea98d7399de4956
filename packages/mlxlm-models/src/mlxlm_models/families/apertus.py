"""Apertus: a plain MLP with the learned activation xIELU."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec, NormNames
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.rules import COMMON_RULES, Reshape

DEFAULT_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 12000000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


@dataclass(frozen=True, kw_only=True)
class ApertusConfig(DecoderConfig):
    hidden_act: str = "xielu"
    rms_norm_eps: float = 1e-5
    rope_theta: float = 12000000.0
    max_position_embeddings: int | None = 65536

    def block(self, layer: int) -> BlockSpec:
        norms = NormNames(
            before_attention="attention_layernorm", before_mlp="feedforward_layernorm"
        )
        return replace(super().block(layer), norms=norms)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm())

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), gated=False)

    def activation(self, key: str) -> str:
        return self.hidden_act if self.hidden_act == "xielu" else super().activation(key)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        if self.rope_scaling is None and self.rope_parameters is None:
            return DEFAULT_ROPE | {"rope_theta": self.rope_theta}
        return super().rope_values(layer_type)


ARCHITECTURE = Architecture(
    "apertus",
    ApertusConfig,
    causal_lm,
    (
        *COMMON_RULES,
        # Stored as (1,) or as ().
        Reshape("*.act_fn.alpha_?", lambda config: (1,)),
    ),
)
