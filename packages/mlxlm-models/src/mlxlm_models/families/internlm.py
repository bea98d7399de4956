"""InternLM 2 and 3: Llama, the second with fused groups under names of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.rules import COMMON_RULES, Drop, DropWhen


@dataclass(frozen=True, kw_only=True)
class InternLM2Config(DecoderConfig):
    aliases: ClassVar[Mapping[str, str]] = {"bias": "attention_bias"}

    attention_bias: bool = True
    max_position_embeddings: int | None = 32768

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(embeddings="tok_embeddings", head="output")
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="attention_norm", before_mlp="ffn_norm"),
            names=BlockNames(attention="attention", mlp="feed_forward"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        names = AttentionNames(qkv="wqkv", o="wo")
        return replace(super().attention(layer), fused="groups", names=names)

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(gate="w1", up="w3", down="w2")
        return replace(super().dense(layer), names=names)


@dataclass(frozen=True, kw_only=True)
class InternLM3Config(DecoderConfig):
    """`bias` is of the output projection and the MLP, `qkv_bias` of the others."""

    num_key_value_heads: int | None = 2
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int | None = 32768
    bias: bool = False
    qkv_bias: bool = False

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qkv_bias=self.qkv_bias or self.attention_bias,
            out_bias=self.bias or self.mlp_bias,
        )

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), bias=self.bias or self.mlp_bias)


INTERNLM2 = Architecture(
    "internlm2",
    InternLM2Config,
    causal_lm,
    (
        *COMMON_RULES,
        DropWhen(lambda config: bool(config.tie_word_embeddings), Drop("output.*")),
    ),
)
INTERNLM3 = Architecture("internlm3", InternLM3Config, causal_lm)
