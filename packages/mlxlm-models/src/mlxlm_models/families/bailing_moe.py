"""Ling (Bailing MoE): a fused projection, routing by softmax or corrected sigmoid."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.moe import GroupedMoEConfig, MoEConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, Rename, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class BailingMoEConfig(GroupedMoEConfig):
    aliases: ClassVar[Mapping[str, str]] = {
        "num_shared_experts": "n_shared_experts",
        "score_function": "scoring_func",
    }

    scoring_func: str = "softmax"
    use_bias: bool = False
    use_qkv_bias: bool = False
    use_qk_norm: bool = False
    norm_head: bool = False
    moe_router_enable_expert_bias: bool = False
    moe_router_enable_routed_scaling: bool = True
    topk_group: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm_head:
            raise self.fail("norm_head", "a normalised output head is not computed here")

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), names=DecoderNames(embeddings="word_embeddings"))

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(attention="attention"))

    def attention(self, layer: int) -> AttentionSpec:
        names = AttentionNames(
            qkv="query_key_value", o="dense", q_norm="query_layernorm", k_norm="key_layernorm"
        )
        return replace(
            super().attention(layer),
            fused="rows",
            qkv_bias=self.use_qkv_bias,
            out_bias=self.use_bias,
            qk_norm=self.norm() if self.use_qk_norm else None,
            names=names,
        )

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), bias=self.use_bias)

    def shared(self, intermediate_size: int) -> MLPSpec:
        return replace(super().shared(intermediate_size), bias=self.use_bias)

    def moe(self, layer: int) -> MoESpec:
        names = MoENames(gate_inner="gate_proj", correction="expert_bias")
        return replace(super().moe(layer), bias=self.use_bias, names=names)

    def router(self) -> RouterSpec:
        router = MoEConfig.router(self)
        if (self.n_group or 1) > 1:
            router = self.in_groups(router, "top2")
        return replace(
            router,
            scoring="sigmoid" if self.scoring_func == "sigmoid" else "softmax",
            epsilon=1e-20,
            correction="block" if self.moe_router_enable_expert_bias else None,
            scaling=self.routed_scaling_factor if self.moe_router_enable_routed_scaling else 1.0,
        )


ARCHITECTURE = Architecture(
    "bailing_moe",
    BailingMoEConfig,
    causal_lm,
    (
        *COMMON_RULES,
        drop_extra_layers,
        Rename(r"(.*\.mlp)\.gate\.expert_bias$", r"\1.expert_bias"),
        Rename(r"(.*\.mlp)\.gate\.(weight|scales|biases)$", r"\1.gate.gate_proj.\2"),
        *stack_experts("mlp.experts", "mlp.switch_mlp"),
    ),
)
