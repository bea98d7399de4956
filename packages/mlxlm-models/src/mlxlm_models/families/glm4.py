"""GLM 4, dense and with experts, latent attention or not."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.families.deepseek_v2 import RULES as DEEPSEEK_RULES
from mlxlm_models.families.deepseek_v3 import DeepSeekV3Config
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec, NormNames
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.rules import COMMON_RULES, Rule, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class GlmConfig(DecoderConfig):
    """Half of each head rotated, in pairs; gate and up stored as one."""

    head_dim: int | None = 128
    num_key_value_heads: int | None = 2
    rms_norm_eps: float = 1.5625e-07
    partial_rotary_factor: float | None = 0.5
    rope_traditional: bool = True
    attention_bias: bool = True

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), out_bias=False)

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), fused=True)


@dataclass(frozen=True, kw_only=True)
class Glm4Config(GlmConfig):
    """Each half between two norms."""

    def block(self, layer: int) -> BlockSpec:
        norms = NormNames(
            before_attention="input_layernorm",
            after_attention="post_self_attn_layernorm",
            before_mlp="post_attention_layernorm",
            after_mlp="post_mlp_layernorm",
        )
        return replace(super().block(layer), norms=norms)


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


@dataclass(frozen=True, kw_only=True)
class SolarOpenConfig(Glm4MoeConfig):
    """GLM 4.5's layers with experts in all, and whole heads rotated."""

    head_dim: int | None = 128
    rope_theta: float = 1000000.0
    partial_rotary_factor: float | None = None
    first_k_dense_replace: int = 0


@dataclass(frozen=True, kw_only=True)
class Glm4MoeLiteConfig(DeepSeekV3Config):
    """GLM 4.7 Flash: DeepSeek-V3's layers, the dense ones named in `mlp_layer_types`."""

    rms_norm_eps: float = 1e-5
    q_lora_rank: int | None = 768
    qk_nope_head_dim: int = 192
    v_head_dim: int = 256
    first_k_dense_replace: int = 1
    n_group: int | None = 1
    topk_group: int | None = 1
    num_experts: int = 64
    num_experts_per_tok: int = 4
    routed_scaling_factor: float = 1.8
    mlp_layer_types: list[str] | None = None

    def has_experts(self, layer: int) -> bool:
        kinds = self.mlp_layer_types
        return super().has_experts(layer) if kinds is None else kinds[layer] == "sparse"


GLM = Architecture("glm", GlmConfig, causal_lm)
DENSE = Architecture("glm4", Glm4Config, causal_lm)
RULES: tuple[Rule, ...] = (
    *COMMON_RULES,
    drop_extra_layers,
    *stack_experts("mlp.experts", "mlp.switch_mlp"),
)
MOE = Architecture("glm4_moe", Glm4MoeConfig, causal_lm, RULES)
MOE_LITE = Architecture("glm4_moe_lite", Glm4MoeLiteConfig, causal_lm, DEEPSEEK_RULES)
SOLAR_OPEN = Architecture("solar_open", SolarOpenConfig, causal_lm, RULES)
