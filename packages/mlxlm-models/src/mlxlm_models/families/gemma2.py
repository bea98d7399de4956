"""Gemma 2: windows in every other layer, soft-capped scores and logits, four norms a block."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.gemma import GemmaConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import SANDWICH_NORM, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec


@dataclass(frozen=True, kw_only=True)
class Gemma2Config(GemmaConfig):
    # Configs that have both keys mean the second.
    aliases: ClassVar[Mapping[str, str]] = {"hidden_activation": "hidden_act"}

    query_pre_attn_scalar: float = 256.0
    attn_logit_softcapping: float | None = 50.0
    final_logit_softcapping: float | None = 30.0
    sliding_window: int | None = 4096

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), logit_soft_cap=self.final_logit_softcapping)

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), norms=SANDWICH_NORM)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            scale=self.query_pre_attn_scalar**-0.5,
            soft_cap=self.attn_logit_softcapping,
        )

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return FULL if layer % 2 else SLIDING


ARCHITECTURE = Architecture("gemma2", Gemma2Config, causal_lm)
