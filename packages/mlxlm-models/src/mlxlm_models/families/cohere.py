"""Cohere's Command models: parallel blocks on a layer norm, scaled logits, RoPE in pairs."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import SHARED_NORM, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec


@dataclass(frozen=True, kw_only=True)
class CohereConfig(DecoderConfig):
    layer_norm_eps: float = 1e-5
    layer_norm_bias: bool = False
    logit_scale: float = 0.0625
    use_qk_norm: bool = False
    rope_theta: float = 500000.0
    rope_traditional: bool = True
    max_position_embeddings: int | None = 8192
    tie_word_embeddings: bool = True

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), logit_scale=self.logit_scale)

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), norms=SHARED_NORM, parallel=True)

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_eps, kind="layer", bias=self.layer_norm_bias)

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        if not self.use_qk_norm:
            return spec
        return replace(spec, qk_norm=replace(self.norm(), bias=False), qk_norm_over="each_head")


@dataclass(frozen=True, kw_only=True)
class Cohere2Config(CohereConfig):
    """Windows in three layers of four, positions in those alone."""

    rope_theta: float = 10000.0
    sliding_window: int | None = 4096
    sliding_window_pattern: int = 4

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if (layer + 1) % self.sliding_window_pattern else FULL

    def rope(self, layer: int) -> RopeSpec | None:
        return super().rope(layer) if self.layer_type(layer) == SLIDING else None


COHERE = Architecture("cohere", CohereConfig, causal_lm)
COHERE2 = Architecture("cohere2", Cohere2Config, causal_lm)
