"""Hunyuan with experts (Large, A13B): a shared MLP beside them, keys shared between layers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.hunyuan_dense import HunyuanDenseConfig
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.cross_layer import CrossLayerDecoderSpec, CrossLayerSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.layers.spec import recast
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
    use_mixed_mlp_moe: bool = True
    use_cla: bool = False
    cla_share_factor: int = 1

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
        if self.cla_share_factor <= 0:
            raise self.fail("cla_share_factor", f"{self.cla_share_factor} is not above zero")

    def decoder(self) -> DecoderSpec:
        spec = super().decoder()
        return recast(CrossLayerDecoderSpec, spec) if self.use_cla else spec

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        if not self.use_cla:
            return spec
        return recast(CrossLayerSpec, spec, borrows=layer % self.cla_share_factor > 0)

    def moe(self, layer: int) -> MoESpec:
        spec = super().moe(layer)
        names = MoENames(gate_inner="wg", shared="shared_mlp")
        return replace(spec, shared=spec.shared if self.use_mixed_mlp_moe else None, names=names)

    def router(self) -> RouterSpec:
        # A single choice keeps its probability.
        return replace(super().router(), normalize=self.num_experts_per_tok > 1)


ARCHITECTURE = Architecture(
    "hunyuan_v1_moe",
    HunyuanMoEConfig,
    causal_lm,
    (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.switch_mlp")),
)
