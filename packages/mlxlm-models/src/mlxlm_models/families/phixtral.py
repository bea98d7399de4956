"""Phi 1 to 2 in their first layout, and Phixtral, which has several such MLPs as experts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.gpt2 import GPTConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, FeedForwardSpec, NormNames
from mlxlm_models.layers.decoder import CausalLM, DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames
from mlxlm_models.layers.module import Held, Module
from mlxlm_models.layers.moe import MoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, stack_experts

_PROJECTIONS = ("fc1", "fc2")


@dataclass(frozen=True, kw_only=True)
class PhixtralConfig(GPTConfig):
    """Phi 2 unless it says otherwise; one MLP a layer without `num_local_experts`."""

    aliases: ClassVar[Mapping[str, str]] = {
        **GPTConfig.aliases,
        "num_vocab": "vocab_size",
        "model_dim": "hidden_size",
        "num_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
        "n_head_kv": "num_key_value_heads",
    }

    vocab_size: int = 51200
    hidden_size: int = 2560
    intermediate_size: int = 10240
    num_attention_heads: int = 32
    num_hidden_layers: int = 32
    max_position_embeddings: int | None = 2048
    rotary_dim: int = 32
    num_local_experts: int | None = None
    num_experts_per_tok: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        experts = self.num_local_experts
        if experts is not None and not 0 < self.num_experts_per_tok <= experts:
            raise self.fail(
                "num_experts_per_tok", f"{self.num_experts_per_tok} of {experts} experts"
            )

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(decoder="transformer", embeddings="embd", layers="h")
        return replace(super().decoder(), norm=None, tied=False, names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="ln"),
            parallel=True,
            names=BlockNames(attention="mixer", mlp="moe" if self.num_local_experts else "mlp"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            fused="rows",
            qkv_bias=True,
            out_bias=True,
            names=AttentionNames(qkv="Wqkv", o="out_proj"),
        )

    def mlp(self, layer: int) -> FeedForwardSpec:
        names = MLPNames(up="fc1", down="fc2")
        if self.num_local_experts is None:
            return replace(self.dense(layer), gated=False, bias=True, names=names)
        return MoESpec(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            router=RouterSpec(experts=self.num_local_experts, top_k=self.num_experts_per_tok),
            activation=self.activation("hidden_act"),
            bias=True,
            gated=False,
            expert_names=names,
        )

    def rope(self, layer: int) -> RopeSpec | None:
        return RopeSpec(self.rotary_dim, self.rope_theta)


class NormedHead(Module):
    """Hidden states (…, hidden) → logits (…, vocabulary)."""

    def __init__(self, norm: NormSpec, hidden_size: int, vocab_size: int) -> None:
        super().__init__()
        self.ln = norm.build(hidden_size)
        self.linear = nn.Linear(hidden_size, vocab_size)

    def __call__(self, hidden: mx.array) -> mx.array:
        return self["linear"](self["ln"](hidden))  # type: ignore[no-any-return]


def build(config: PhixtralConfig) -> CausalLM:
    """Return the model; the last norm is a part of its head."""
    model = CausalLM(config.decoder())
    model.lm_head = NormedHead(config.norm(), config.hidden_size, config.vocab_size)
    model.model.embd = Held("wte", model.model.embd)
    return model


ARCHITECTURE = Architecture(
    "phixtral",
    PhixtralConfig,
    build,
    (*COMMON_RULES, *stack_experts("moe.mlp", "moe.switch_mlp", _PROJECTIONS, _PROJECTIONS)),
)
