"""Qwen 2 and 3 with experts: which layers have them, and how both store them."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.families.qwen2 import Qwen2Config
from mlxlm_models.families.qwen3 import Qwen3Config
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class SparseStepsConfig(MoEConfig):
    """`mlp_only_layers` have no experts, nor have those between the sparse steps."""

    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] | None = None
    norm_topk_prob: bool = False

    def has_experts(self, layer: int) -> bool:
        if layer in (self.mlp_only_layers or ()):
            return False
        return (layer + 1) % self.decoder_sparse_step == 0


@dataclass(frozen=True, kw_only=True)
class Qwen2MoeConfig(SparseStepsConfig, Qwen2Config):
    qkv_bias: bool = True
    shared_expert_intermediate_size: int = 5632

    def moe(self, layer: int) -> MoESpec:
        return replace(
            super().moe(layer),
            shared=self.shared(self.shared_expert_intermediate_size),
            shared_gate=True,
            names=MoENames(shared="shared_expert"),
        )

    def layer_type(self, layer: int) -> str:
        if not self.use_sliding_window or self.sliding_window is None:
            return FULL
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if layer % 2 == 0 and layer < self.max_window_layers else FULL


@dataclass(frozen=True, kw_only=True)
class Qwen3MoeConfig(SparseStepsConfig, Qwen3Config):
    """Unlike Qwen 3, it has a window in every layer where it has one at all."""

    head_dim: int | None = None

    def layer_type(self, layer: int) -> str:
        return SLIDING if self.use_sliding_window and self.sliding_window else FULL


RULES = (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.switch_mlp"))
QWEN2 = Architecture("qwen2_moe", Qwen2MoeConfig, causal_lm, RULES)
QWEN3 = Architecture("qwen3_moe", Qwen3MoeConfig, causal_lm, RULES)
