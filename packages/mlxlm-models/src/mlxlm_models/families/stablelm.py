"""StableLM 1.6B to 12B: layer norms, partial rotation, optionally parallel blocks."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import PRE_NORM, SHARED_NORM, BlockSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.rules import COMMON_RULES, Stack


@dataclass(frozen=True, kw_only=True)
class StableLMConfig(DecoderConfig):
    layer_norm_eps: float = 1e-5
    partial_rotary_factor: float | None = 0.25
    max_position_embeddings: int | None = 4096
    use_qkv_bias: bool = False
    qk_layernorm: bool = False
    use_parallel_residual: bool = False

    def block(self, layer: int) -> BlockSpec:
        parallel = self.use_parallel_residual
        norms = SHARED_NORM if parallel else PRE_NORM
        return replace(super().block(layer), parallel=parallel, norms=norms)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qkv_bias=self.use_qkv_bias,
            qk_norm=self.norm() if self.qk_layernorm else None,
            qk_norm_over="each_head",
            names=AttentionNames(q_norm="q_layernorm", k_norm="k_layernorm"),
        )

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_eps, kind="layer", bias=True)


ARCHITECTURE = Architecture(
    "stablelm",
    StableLMConfig,
    causal_lm,
    (
        *COMMON_RULES,
        Stack("q_layernorm.norms.{}", "q_layernorm"),
        Stack("k_layernorm.norms.{}", "k_layernorm"),
    ),
)
