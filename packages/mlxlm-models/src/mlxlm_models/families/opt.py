"""OPT: learned positions from the third on, ReLU, layer norms before or after the sums."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.rules import COMMON_RULES, Rename

FIRST, SECOND = "self_attn_layer_norm", "final_layer_norm"


@dataclass(frozen=True, kw_only=True)
class OPTConfig(DecoderConfig):
    aliases: ClassVar[Mapping[str, str]] = {
        "ffn_dim": "intermediate_size",
        "activation_function": "hidden_act",
    }

    hidden_act: str = "relu"
    max_position_embeddings: int | None = 2048
    word_embed_proj_dim: int | None = None
    do_layer_norm_before: bool = True
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word_embed_proj_dim not in (None, self.hidden_size):
            raise self.fail("word_embed_proj_dim", "projected embeddings are not supported")

    def decoder(self) -> DecoderSpec:
        positions = self.max_position_embeddings
        return replace(
            super().decoder(),
            norm=self.norm() if self.do_layer_norm_before else None,
            positions=None if positions is None else positions + 2,
            position_offset=2,
            names=DecoderNames(positions="embed_positions", norm=SECOND),
        )

    def block(self, layer: int) -> BlockSpec:
        before = self.do_layer_norm_before
        norms = NormNames(FIRST, None, SECOND) if before else NormNames(None, FIRST, None, SECOND)
        return replace(super().block(layer), norms=norms, norm_sum=not before)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qkv_bias=self.enable_bias,
            out_bias=self.enable_bias,
            names=AttentionNames(o="out_proj"),
        )

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="fc1", down="fc2")
        return replace(super().dense(layer), gated=False, bias=self.enable_bias, names=names)

    def norm(self) -> NormSpec:
        affine = self.layer_norm_elementwise_affine
        return NormSpec(1e-5, kind="layer", weight=affine, bias=affine)

    def rope(self, layer: int) -> RopeSpec | None:
        return None


ARCHITECTURE = Architecture(
    "opt",
    OPTConfig,
    causal_lm,
    (
        Rename(r"decoder\.", "model."),
        Rename(r"model\.decoder\.", "model."),
        Rename(r"(model\.layers\.\d+)\.(fc[12])\.", r"\1.mlp.\2."),
        *COMMON_RULES,
    ),
)
