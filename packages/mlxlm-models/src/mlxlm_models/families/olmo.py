"""OLMo 1 to 3, and OLMoE."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import POST_NORM, BlockSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class OlmoConfig(DecoderConfig):
    """Layer norms with nothing to learn; queries, keys and values bounded."""

    clip_qkv: float | None = None

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), clip=self.clip_qkv)

    def norm(self) -> NormSpec:
        return NormSpec(1e-5, kind="layer", weight=False)


@dataclass(frozen=True, kw_only=True)
class Olmo2Config(DecoderConfig):
    """What each half adds is normalised, and queries and keys as wholes."""

    rms_norm_eps: float = 1e-5

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), norms=POST_NORM)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm(), qk_norm_over="projection")


@dataclass(frozen=True, kw_only=True)
class Olmo3Config(Olmo2Config):
    """Windows in three layers of four; RoPE is only scaled in the others."""

    rope_theta: float = 500000.0
    sliding_window: int | None = 4096

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if (layer + 1) % 4 else FULL

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = super().rope_values(layer_type)
        nested = layer_type in (self.rope_parameters or {})
        return values if nested or layer_type == FULL else {"rope_theta": values["rope_theta"]}


@dataclass(frozen=True, kw_only=True)
class OlmoeConfig(MoEConfig):
    rms_norm_eps: float = 1e-5
    num_experts: int = 64
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = False
    clip_qkv: float | None = None

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qk_norm=self.norm(),
            qk_norm_over="projection",
            clip=self.clip_qkv,
        )


OLMO = Architecture("olmo", OlmoConfig, causal_lm)
OLMO2 = Architecture("olmo2", Olmo2Config, causal_lm)
OLMO3 = Architecture("olmo3", Olmo3Config, causal_lm)
OLMOE = Architecture(
    "olmoe",
    OlmoeConfig,
    causal_lm,
    (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.switch_mlp")),
)
