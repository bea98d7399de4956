"""dots.llm1: normalised queries and keys, corrected sigmoid routing."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class Dots1Config(GroupedMoEConfig):
    norm_topk_prob: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 62

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm())

    def moe(self, layer: int) -> MoESpec:
        return replace(super().moe(layer), names=MoENames(experts="experts"))

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        windowed = self.sliding_window is not None and layer >= self.max_window_layers
        return SLIDING if windowed else FULL


ARCHITECTURE = Architecture(
    "dots1", Dots1Config, causal_lm, (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.experts"))
)
