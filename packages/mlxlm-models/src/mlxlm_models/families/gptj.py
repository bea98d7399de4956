"""GPT-J: parallel blocks on one layer norm, part of each head rotated in pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.gpt2 import BUFFERS, GPTConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.rules import COMMON_RULES, Rename


@dataclass(frozen=True, kw_only=True)
class GPTJConfig(GPTConfig):
    max_position_embeddings: int | None = 2048
    rotary_dim: int | None = 64
    rope_traditional: bool = True

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(embeddings="wte", layers="h", norm="ln_f")
        return replace(super().decoder(), head_bias=True, names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            parallel=True,
            norms=NormNames(before_attention="ln_1"),
            names=BlockNames(attention="attn"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), names=AttentionNames(o="out_proj"))

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="fc_in", down="fc_out")
        return replace(super().dense(layer), gated=False, bias=True, names=names)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        share = (self.rotary_dim or self.head_size) / self.head_size
        return {**super().rope_values(layer_type), "partial_rotary_factor": share}


ARCHITECTURE = Architecture(
    "gptj", GPTJConfig, causal_lm, (BUFFERS, Rename(r"transformer\.", "model."), *COMMON_RULES)
)
