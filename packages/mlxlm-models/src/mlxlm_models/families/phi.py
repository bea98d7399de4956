"""Phi 1, 1.5 and 2: parallel blocks on one layer norm, biases everywhere."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import SHARED_NORM, BlockSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec


@dataclass(frozen=True, kw_only=True)
class PhiConfig(DecoderConfig):
    hidden_act: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    partial_rotary_factor: float | None = 0.5
    max_position_embeddings: int | None = 2048
    qk_layernorm: bool = False

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(norm="final_layernorm")
        return replace(super().decoder(), head_bias=True, names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), norms=SHARED_NORM, parallel=True)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qkv_bias=True,
            out_bias=True,
            qk_norm=self.norm() if self.qk_layernorm else None,
            names=AttentionNames(o="dense", q_norm="q_layernorm", k_norm="k_layernorm"),
        )

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="fc1", down="fc2")
        return replace(super().dense(layer), gated=False, bias=True, names=names)

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_eps, kind="layer", bias=True)


ARCHITECTURE = Architecture("phi", PhiConfig, causal_lm)
