"""LongCat-Flash: two latent attentions a layer, experts on a shortcut, some of them idle."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.deepseek_v2 import RULES as DEEPSEEK_RULES
from mlxlm_models.families.mla import MLAConfig
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.block import BlockSpec
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.layers.shortcut import ShortcutBlockSpec
from mlxlm_models.rules import Drop, Rule, Weights


@dataclass(frozen=True, kw_only=True)
class LongcatFlashConfig(MLAConfig, MoEConfig):
    """`num_layers` are those that hold two halves; `num_hidden_layers` would count halves."""

    aliases: ClassVar[Mapping[str, str]] = {
        **MoEConfig.aliases,
        "ffn_hidden_size": "intermediate_size",
        "expert_ffn_hidden_size": "moe_intermediate_size",
        "moe_topk": "num_experts_per_tok",
    }

    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000000.0
    num_experts: int = 512
    num_experts_per_tok: int = 12
    moe_intermediate_size: int | None = 2048
    zero_expert_num: int = 256
    zero_expert_type: str = "identity"
    routed_scaling_factor: float = 6.0
    norm_topk_prob: bool = False
    router_bias: bool = False
    mla_scale_q_lora: bool = True
    mla_scale_kv_lora: bool = True

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the keys of `config.json`; ConfigError where they cannot be used."""
        layers, halves = data.get("num_layers"), data.get("num_hidden_layers")
        if layers is None and isinstance(halves, int):
            layers = halves // 2
        return super().from_dict({**data, "num_hidden_layers": layers})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.zero_expert_num and self.zero_expert_type != "identity":
            raise self.fail("zero_expert_type", f"{self.zero_expert_type!r} is not identity")

    def block(self, layer: int) -> BlockSpec:
        return ShortcutBlockSpec(  # type: ignore[return-value]
            attention=self.mixer(layer),
            mlp=self.dense(layer),
            experts=self.moe(layer),
            norm=self.norm(),
        )

    def latent_attention(self, layer: int) -> MLASpec:
        queries, keys = self.q_lora_rank, self.kv_lora_rank
        return replace(
            super().latent_attention(layer),
            q_scale=(self.hidden_size / queries) ** 0.5
            if queries and self.mla_scale_q_lora
            else None,
            kv_scale=(self.hidden_size / keys) ** 0.5 if self.mla_scale_kv_lora else None,
        )

    def moe(self, layer: int) -> MoESpec:
        names = MoENames(gate="router", gate_inner="classifier")
        return replace(super().moe(layer), identities=self.zero_expert_num, names=names)

    def router(self) -> RouterSpec:
        return replace(
            super().router(),
            experts=self.num_experts + self.zero_expert_num,
            correction="router",
            bias=self.router_bias,
            wide=True,
        )


def drop_idle_experts(weights: Weights, config: LongcatFlashConfig) -> Weights:
    """Remove what transformers writes for experts that give what they read."""
    result: Weights = {}
    for name, value in weights.items():
        found = re.search(r"\.mlp\.experts\.(\d+)\.", name)
        if found is None or int(found[1]) < config.num_experts:
            result[name] = value
    return result


RULES: tuple[Rule, ...] = (Drop("model.mtp.*"), drop_idle_experts, *DEEPSEEK_RULES)
ARCHITECTURE = Architecture("longcat_flash", LongcatFlashConfig, causal_lm, RULES)
