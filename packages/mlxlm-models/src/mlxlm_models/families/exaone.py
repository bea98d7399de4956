"""EXAONE 3: Llama under GPT-2's names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.rules import COMMON_RULES


@dataclass(frozen=True, kw_only=True)
class ExaoneConfig(DecoderConfig):
    aliases: ClassVar[Mapping[str, str]] = {
        "num_layers": "num_hidden_layers",
        "layer_norm_epsilon": "rms_norm_eps",
        "activation_function": "hidden_act",
    }

    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    num_key_value_heads: int | None = 8

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(decoder="transformer", embeddings="wte", layers="h", norm="ln_f")
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="ln_1", before_mlp="ln_2"),
            names=BlockNames(attention="attn", attention_inner="attention"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), names=AttentionNames(o="out_proj"))

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(gate="c_fc_0", up="c_fc_1", down="c_proj")
        return replace(super().dense(layer), names=names)


ARCHITECTURE = Architecture("exaone", ExaoneConfig, causal_lm, COMMON_RULES)
