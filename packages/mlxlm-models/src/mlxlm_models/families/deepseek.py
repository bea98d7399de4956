"""DeepSeek-MoE, the first: Llama's attention, softmax routing, shared experts."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class DeepSeekConfig(MoEConfig):
    first_k_dense_replace: int = 0
    moe_layer_freq: int = 1
    norm_topk_prob: bool = False

    def has_experts(self, layer: int) -> bool:
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0


ARCHITECTURE = Architecture(
    "deepseek",
    DeepSeekConfig,
    causal_lm,
    (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.switch_mlp")),
)
