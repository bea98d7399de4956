"""Klear: Qwen 3 with experts, and a shared one whose share of the sum each token decides."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.qwen_moe import SparseStepsConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class KlearConfig(SparseStepsConfig):
    norm_topk_prob: bool = True
    n_shared_experts: int | None = 1

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm())

    def moe(self, layer: int) -> MoESpec:
        spec = super().moe(layer)
        names = MoENames(experts="experts", shared_gate="coefficient", correction="expert_bias")
        return replace(spec, blend=spec.shared is not None, names=names)

    def router(self) -> RouterSpec:
        return replace(super().router(), scoring="sigmoid", correction="block")


ARCHITECTURE = Architecture(
    "Klear",
    KlearConfig,
    causal_lm,
    (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.experts")),
)
