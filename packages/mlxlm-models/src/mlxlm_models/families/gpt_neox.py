"""GPT-NeoX and Pythia: parallel blocks, each half with its own layer norm."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename


@dataclass(frozen=True, kw_only=True)
class GPTNeoXConfig(DecoderConfig):
    aliases: ClassVar[Mapping[str, str]] = {
        "rotary_emb_base": "rope_theta",
        "rotary_pct": "partial_rotary_factor",
    }

    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    partial_rotary_factor: float | None = 0.25
    max_position_embeddings: int | None = 2048
    attention_bias: bool = True
    use_parallel_residual: bool = True

    def decoder(self) -> DecoderSpec:
        return replace(
            super().decoder(),
            names=DecoderNames(
                embeddings="embed_in",
                layers="h",
                norm="final_layer_norm",
                head="embed_out",
                head_inside=True,
            ),
        )

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            parallel=self.use_parallel_residual,
            names=BlockNames(attention="attention"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        names = AttentionNames(qkv="query_key_value", o="dense")
        return replace(super().attention(layer), fused="groups", names=names)

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="dense_h_to_4h", down="dense_4h_to_h")
        return replace(super().dense(layer), gated=False, bias=True, names=names)

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_eps, kind="layer", bias=True)


ARCHITECTURE = Architecture(
    "gpt_neox",
    GPTNeoXConfig,
    causal_lm,
    (
        Drop("*.attention.bias", "*.attention.masked_bias"),
        Rename(r"gpt_neox\.layers\.", "model.h."),
        Rename(r"gpt_neox\.", "model."),
        Rename(r"(embed_out|lm_head)\.", "model.embed_out."),
        *COMMON_RULES,
    ),
)
