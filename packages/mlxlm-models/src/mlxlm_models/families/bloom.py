"""BLOOM: ALiBi, normalised embeddings, fused groups."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.gpt2 import GPTConfig
from mlxlm_models.layers.alibi import slopes
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.rules import COMMON_RULES, Rename


@dataclass(frozen=True, kw_only=True)
class BloomConfig(GPTConfig):
    aliases: ClassVar[Mapping[str, str]] = {**GPTConfig.aliases, "n_embed": "hidden_size"}

    hidden_act: str = "gelu_pytorch_tanh"
    apply_residual_connection_post_layernorm: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.apply_residual_connection_post_layernorm:
            raise self.fail("apply_residual_connection_post_layernorm", "no published model has it")

    def decoder(self) -> DecoderSpec:
        return replace(
            super().decoder(),
            embedding_norm=self.norm(),
            names=DecoderNames(
                decoder="transformer",
                embeddings="word_embeddings",
                embedding_norm="word_embeddings_layernorm",
                layers="h",
                norm="ln_f",
            ),
        )

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(attention="self_attention"))

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            alibi=slopes(self.num_attention_heads),
            fused="groups",
            qkv_bias=True,
            out_bias=True,
            names=AttentionNames(qkv="query_key_value", o="dense"),
        )

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="dense_h_to_4h", down="dense_4h_to_h")
        return replace(super().dense(layer), gated=False, bias=True, names=names)

    def rope(self, layer: int) -> RopeSpec | None:
        return None


ARCHITECTURE = Architecture(
    "bloom",
    BloomConfig,
    causal_lm,
    (
        Rename(r"(word_embeddings|word_embeddings_layernorm|h|ln_f)\.", r"transformer.\1."),
        *COMMON_RULES,
    ),
)
