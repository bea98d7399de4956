"""Qwen, the first: Llama under GPT-2's names, with a fused projection and biases on it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec


@dataclass(frozen=True, kw_only=True)
class QwenConfig(DecoderConfig):
    """`intermediate_size` counts gate and up together."""

    aliases: ClassVar[Mapping[str, str]] = {
        "kv_channels": "head_dim",
        "layer_norm_epsilon": "rms_norm_eps",
        "rotary_emb_base": "rope_theta",
    }

    no_bias: bool = True

    @property
    def kv_heads(self) -> int:
        return self.num_attention_heads

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(decoder="transformer", embeddings="wte", layers="h", norm="ln_f")
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="ln_1", before_mlp="ln_2"),
            names=BlockNames(attention="attn"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            fused="rows",
            qkv_bias=True,
            out_bias=not self.no_bias,
            names=AttentionNames(qkv="c_attn", o="c_proj"),
        )

    def dense(self, layer: int) -> MLPSpec:
        return replace(
            super().dense(layer),
            intermediate_size=self.intermediate_size // 2,
            bias=not self.no_bias,
            names=MLPNames(gate="w2", up="w1", down="c_proj"),
        )


ARCHITECTURE = Architecture("qwen", QwenConfig, causal_lm)
