"""Laguna: softplus gates on attention, heads that differ by layer, corrected sigmoid routing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, Rename, stack_experts

DEFAULT_ROPE: Mapping[str, Any] = {
    FULL: {"rope_theta": 500000.0, "partial_rotary_factor": 0.5},
    "sliding_attention": {"rope_theta": 10000.0},
}


@dataclass(frozen=True, kw_only=True)
class LagunaConfig(MoEConfig):
    aliases: ClassVar[Mapping[str, str]] = {"moe_routed_scaling_factor": "routed_scaling_factor"}

    head_dim: int | None = 128
    num_key_value_heads: int | None = 8
    num_experts: int = 256
    num_experts_per_tok: int = 8
    moe_intermediate_size: int | None = 512
    shared_expert_intermediate_size: int = 512
    sliding_window: int | None = 512
    gating: bool | str = True
    num_attention_heads_per_layer: list[int] | None = None
    mlp_layer_types: list[str] | None = None
    moe_apply_router_weight_on_input: bool = False
    moe_router_logit_softcapping: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.moe_apply_router_weight_on_input:
            raise self.fail("moe_apply_router_weight_on_input", "no published model has it")
        if self.gating not in (True, "per-head", "per-element"):
            raise self.fail("gating", f"{self.gating!r} is neither per-head nor per-element")

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        heads = self.num_attention_heads_per_layer
        return replace(
            spec,
            heads=heads[layer] if heads else spec.heads,
            qk_norm=self.norm(),
            gate="features" if self.gating == "per-element" else "heads",
            gate_activation="softplus",
            names=AttentionNames(gate="g_proj"),
        )

    def has_experts(self, layer: int) -> bool:
        kinds = self.mlp_layer_types
        return layer > 0 if kinds is None else kinds[layer] == "sparse"

    def moe(self, layer: int) -> MoESpec:
        return replace(
            super().moe(layer),
            shared=self.shared(self.shared_expert_intermediate_size),
            names=MoENames(shared="shared_expert"),
        )

    def router(self) -> RouterSpec:
        return replace(
            super().router(),
            scoring="sigmoid",
            correction="gate",
            wide=True,
            soft_cap=self.moe_router_logit_softcapping or None,
        )

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        if self.rope_parameters is None and self.rope_scaling is None:
            return DEFAULT_ROPE[layer_type]  # type: ignore[no-any-return]
        return super().rope_values(layer_type)


ARCHITECTURE = Architecture(
    "laguna",
    LagunaConfig,
    causal_lm,
    (
        *COMMON_RULES,
        Rename(r"(.*\.mlp\.gate)\.proj\.", r"\1."),  # as converted ones have it
        Rename(r"(.*\.mlp)\.experts\.e_score_correction_bias", r"\1.gate.e_score_correction_bias"),
        *stack_experts("mlp.experts", "mlp.switch_mlp"),
    ),
)
