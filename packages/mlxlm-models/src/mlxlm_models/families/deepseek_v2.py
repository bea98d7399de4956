"""DeepSeek-V2: latent attention, and experts routed within groups."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.mla import MLAConfig, split_key_value_heads
from mlxlm_models.families.moe import GroupedMoEConfig, MoEConfig
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, Rule, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class DeepSeekV2Config(MLAConfig, GroupedMoEConfig):
    n_shared_experts: int | None = 2
    n_group: int | None = None
    topk_group: int | None = None
    topk_method: str = "greedy"
    norm_topk_prob: bool = False

    def router(self) -> RouterSpec:
        router = replace(
            MoEConfig.router(self),
            wide=True,
            # Normalised weights are not scaled.
            scaling=1.0 if self.norm_topk_prob else self.routed_scaling_factor,
        )
        if self.topk_method == "greedy":
            return router
        if self.topk_method == "group_limited_greedy":
            return self.in_groups(router, "max")
        raise self.fail("topk_method", f"{self.topk_method!r} is not greedy, in groups or not")


RULES: tuple[Rule, ...] = (
    *COMMON_RULES,
    drop_extra_layers,
    *stack_experts("mlp.experts", "mlp.switch_mlp"),
    split_key_value_heads,
)
ARCHITECTURE = Architecture("deepseek_v2", DeepSeekV2Config, causal_lm, RULES)
