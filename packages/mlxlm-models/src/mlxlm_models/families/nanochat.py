"""nanochat: norms with no weights, rotation the other way round, a plain squared-ReLU MLP."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.rules import COMMON_RULES, Rename


@dataclass(frozen=True, kw_only=True)
class NanoChatConfig(DecoderConfig):
    hidden_act: str = "relu2"
    max_position_embeddings: int | None = 2048
    final_logit_softcapping: float | None = 15.0

    def decoder(self) -> DecoderSpec:
        return replace(
            super().decoder(),
            embedding_norm=self.norm(),
            logit_soft_cap=self.final_logit_softcapping,
            names=DecoderNames(decoder="transformer", embeddings="wte", layers="h"),
        )

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(attention="attn"))

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qk_norm=self.norm(),
            norm_rotated=True,
            names=AttentionNames(q="c_q", k="c_k", v="c_v", o="c_proj"),
        )

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="c_fc", down="c_proj")
        return replace(super().dense(layer), gated=False, names=names)

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps, weight=False)

    def rope(self, layer: int) -> RopeSpec | None:
        spec = super().rope(layer)
        return None if spec is None else replace(spec, scale=-spec.scale)


ARCHITECTURE = Architecture(
    "nanochat",
    NanoChatConfig,
    causal_lm,
    (
        Rename(r"model\.embed_tokens\.", "transformer.wte."),
        Rename(r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj\.", r"transformer.h.\1.attn.c_\2."),
        Rename(r"model\.layers\.(\d+)\.self_attn\.o_proj\.", r"transformer.h.\1.attn.c_proj."),
        Rename(r"model\.layers\.(\d+)\.mlp\.fc1\.", r"transformer.h.\1.mlp.c_fc."),
        Rename(r"model\.layers\.(\d+)\.mlp\.fc2\.", r"transformer.h.\1.mlp.c_proj."),
        *COMMON_RULES,
    ),
)
