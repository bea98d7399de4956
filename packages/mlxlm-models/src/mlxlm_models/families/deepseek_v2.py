"""DeepSeek-V2: latent attention, and experts routed within groups."""

from dataclasses import dataclass, replace
from typing import Literal

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.mla import MLAConfig, split_key_value_heads
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class DeepSeekV2Config(MLAConfig, MoEConfig):
    """The first `first_k_dense_replace` layers have no experts."""

    first_k_dense_replace: int = 0
    moe_layer_freq: int = 1
    n_shared_experts: int | None = 2
    n_group: int | None = None
    topk_group: int | None = None
    topk_method: str = "greedy"
    norm_topk_prob: bool = False

    def has_experts(self, layer: int) -> bool:
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0

    def router(self) -> RouterSpec:
        grouped = self.topk_method == "group_limited_greedy"
        plain = replace(super().router(), wide=True)
        return replace(
            self.in_groups(plain, "max") if grouped else plain,
            # Normalised weights are not scaled.
            scaling=1.0 if self.norm_topk_prob else self.routed_scaling_factor,
        )

    def in_groups(self, router: RouterSpec, score: Literal["max", "top2"]) -> RouterSpec:
        groups, kept = self.n_group or 1, self.topk_group or 1
        if self.num_experts % groups:
            raise self.fail("n_group", f"{self.num_experts} experts don't make {groups} groups")
        if kept > groups:
            raise self.fail("topk_group", f"{kept} of {groups} groups")
        return replace(router, groups=groups, kept_groups=kept, group_score=score)


RULES = (
    *COMMON_RULES,
    drop_extra_layers,
    *stack_experts("mlp.experts", "mlp.switch_mlp"),
    split_key_value_heads,
)
ARCHITECTURE = Architecture("deepseek_v2", DeepSeekV2Config, causal_lm, RULES)
