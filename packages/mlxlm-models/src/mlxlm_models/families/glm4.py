"""GLM 4, dense and with experts."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec, NormNames
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.rules import COMMON_RULES, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class Glm4Config(DecoderConfig):
    """Each half between two norms; half of each head rotated, in pairs."""

    head_dim: int | None = 128
    num_key_value_heads: int | None = 2
    rms_norm_eps: float = 1.5625e-07
    partial_rotary_factor: float | None = 0.5
    rope_traditional: bool = True
    attention_bias: bool = True

    def block(self, layer: int) -> BlockSpec:
        norms = NormNames(
            before_attention="input_layernorm",
            after_attention="post_self_attn_layernorm",
            before_mlp="post_attention_layernorm",
            after_mlp="post_mlp_layernorm",
        )
        return replace(super().block(layer), norms=norms)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), out_bias=False)

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), fused=True)


@dataclass(frozen=True, kw_only=True)
class Glm4MoeConfig(GroupedMoEConfig):
    """GLM 4.5 to 4.7."""

    rms_norm_eps: float = 1e-5
    num_key_value_heads: int | None = 8
    partial_rotary_factor: float | None = 0.5
    num_experts: int = 128
    num_experts_per_tok: int = 8
    n_shared_experts: int | None = 1
    first_k_dense_replace: int = 1
    use_qk_norm: bool = False

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            out_bias=False,
            qk_norm=self.norm() if self.use_qk_norm else None,
        )


DENSE = Architecture("glm4", Glm4Config, causal_lm)
MOE = Architecture(
    "glm4_moe",
    Glm4MoeConfig,
    causal_lm,
    (*COMMON_RULES, drop_extra_layers, *stack_experts("mlp.experts", "mlp.switch_mlp")),
)
