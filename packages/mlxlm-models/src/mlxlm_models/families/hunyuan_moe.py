"""Hunyuan with experts (A13B): its dense layers' attention, a shared MLP beside the experts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.hunyuan_dense import HunyuanDenseConfig
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.rules import COMMON_RULES, stack_experts

_PER_LAYER = ("moe_topk", "num_experts", "num_shared_expert", "moe_intermediate_size")


@dataclass(frozen=True, kw_only=True)
class HunyuanMoEConfig(MoEConfig, HunyuanDenseConfig):
    """Keys that may have a number per layer have to have the same for all."""

    aliases: ClassVar[Mapping[str, str]] = {
        "moe_topk": "num_experts_per_tok",
        "num_local_experts": "num_experts",
        "num_shared_expert": "n_shared_experts",
    }

    num_experts: int = 1
    num_experts_per_tok: int = 1
    n_shared_experts: int | None = 1
    use_cla: bool = False

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        values = dict(data)
        for key in _PER_LAYER:
            given = values.get(key)
            if isinstance(given, list) and len(set(given)) == 1:
                values[key] = given[0]
        return super().from_dict(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.use_cla:
            raise self.fail("use_cla", "keys shared across layers are not computed here")

    def moe(self, layer: int) -> MoESpec:
        names = MoENames(gate_inner="wg", shared="shared_mlp")
        return replace(super().moe(layer), names=names)


ARCHITECTURE = Architecture(
    "hunyuan_v1_moe",
    HunyuanMoEConfig,
    causal_lm,
    (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.switch_mlp")),
)
