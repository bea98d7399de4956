"""Kimi Linear: three layers of delta attention to one of latent attention without positions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, causal_lm
from mlxlm_models.families.delta import CONVOLUTIONS, LINEAR, DeltaConfig
from mlxlm_models.families.mla import split_key_value_heads
from mlxlm_models.layers.delta_attention import DeltaAttentionSpec
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename, Reshape, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class KimiLinearConfig(DeltaConfig):
    """`linear_attn_config` has the sizes of delta attention, and counts layers from 1."""

    rms_norm_eps: float = 1e-5
    num_experts: int = 256
    num_experts_per_tok: int = 8
    moe_intermediate_size: int | None = 1024
    routed_scaling_factor: float = 2.446
    first_k_dense_replace: int = 1
    mla_use_nope: bool = True
    linear_attn_config: dict[str, Any] | None = None
    linear_head_dim: int = 128
    linear_num_heads: int = 32
    linear_conv_kernel_dim: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mla_use_nope:
            raise self.fail("mla_use_nope", "no published model rotates")

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        full = self.linear("full_attn_layers", None)
        if full is not None:
            return FULL if layer + 1 in full else LINEAR
        return FULL if layer and layer % 4 == 0 else LINEAR

    def linear(self, key: str, default: Any) -> Any:
        return (self.linear_attn_config or {}).get(key, default)

    def delta_attention(self) -> DeltaAttentionSpec:
        return DeltaAttentionSpec(
            hidden_size=self.hidden_size,
            heads=self.linear("num_heads", self.linear_num_heads),
            head_dim=self.linear("head_dim", self.linear_head_dim),
            kernel=self.linear("short_conv_kernel_size", self.linear_conv_kernel_dim),
            norm=self.norm(),
            low_rank=True,
        )

    def latent_attention(self, layer: int) -> MLASpec:
        return replace(super().latent_attention(layer), rope=None)

    def score_scale(self, layer: int) -> float:
        scale: float = (self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5
        return scale

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        """Return settings of no use: nothing is rotated."""
        return {"rope_theta": self.rope_theta}


ARCHITECTURE = Architecture(
    "kimi_linear",
    KimiLinearConfig,
    causal_lm,
    (
        Drop("model.mtp.*"),
        *COMMON_RULES,
        drop_extra_layers,
        Rename(r"(.*)\.block_sparse_moe\.", r"\1.mlp."),
        Rename(r"(.*\.mlp)\.e_score_correction_bias$", r"\1.gate.e_score_correction_bias"),
        Rename(r"(.*)\.([qkv])_conv\.conv\.", r"\1.\2_conv1d."),
        CONVOLUTIONS,
        Reshape("*.A_log", lambda config: (-1,)),
        *stack_experts("mlp.experts", "mlp.switch_mlp", names=("w1", "w3", "w2")),
        split_key_value_heads,
    ),
)
