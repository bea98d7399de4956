"""Trinity (AFMoE): gated attention with positions in windowed layers alone, four norms a block."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, stack_experts


@dataclass(frozen=True, kw_only=True)
class AfmoeConfig(MoEConfig):
    aliases: ClassVar[Mapping[str, str]] = {
        "num_shared_experts": "n_shared_experts",
        "route_scale": "routed_scaling_factor",
        "route_norm": "norm_topk_prob",
    }

    head_dim: int | None = 128
    rms_norm_eps: float = 1e-5
    num_experts: int = 64
    num_experts_per_tok: int = 6
    n_shared_experts: int | None = 2
    num_dense_layers: int = 1
    sliding_window: int | None = 1024
    global_attn_every_n_layers: int = 4
    mup_enabled: bool = False

    def decoder(self) -> DecoderSpec:
        scale = self.hidden_size**0.5 if self.mup_enabled else None
        return replace(super().decoder(), embedding_scale=scale)

    def block(self, layer: int) -> BlockSpec:
        norms = NormNames(
            before_attention="input_layernorm",
            after_attention="post_attention_layernorm",
            before_mlp="pre_mlp_layernorm",
            after_mlp="post_mlp_layernorm",
        )
        return replace(super().block(layer), norms=norms)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm(), gate="features")

    def has_experts(self, layer: int) -> bool:
        return layer >= self.num_dense_layers

    def moe(self, layer: int) -> MoESpec:
        names = MoENames(
            gate="router", gate_inner="gate", experts="experts", correction="expert_bias"
        )
        return replace(super().moe(layer), names=names)

    def router(self) -> RouterSpec:
        return replace(super().router(), scoring="sigmoid", epsilon=1e-20, correction="block")

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if (layer + 1) % self.global_attn_every_n_layers else FULL

    def rope(self, layer: int) -> RopeSpec | None:
        return super().rope(layer) if self.layer_type(layer) == SLIDING else None


ARCHITECTURE = Architecture(
    "afmoe", AfmoeConfig, causal_lm, (*COMMON_RULES, *stack_experts("mlp.experts", "mlp.experts"))
)
