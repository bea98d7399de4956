"""ERNIE 4.5, dense and with experts: Llama with RoPE in pairs."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import mlx.core as mx

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename, Reshape, Weights, stack_experts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Ernie45Config(DecoderConfig):
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    rope_traditional: bool = True
    use_bias: bool = False
    tie_word_embeddings: bool = True

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        return replace(spec, qkv_bias=self.use_bias, out_bias=self.use_bias)

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), bias=self.use_bias)


@dataclass(frozen=True, kw_only=True)
class Ernie45MoeConfig(Ernie45Config, MoEConfig):
    """Experts from layer `moe_layer_start_index` to `moe_layer_end_index`, -1 being the last."""

    aliases: ClassVar[Mapping[str, str]] = {
        "moe_num_experts": "num_experts",
        "moe_k": "num_experts_per_tok",
        "moe_num_shared_experts": "n_shared_experts",
    }

    num_experts: int = 64
    num_experts_per_tok: int = 6
    n_shared_experts: int | None = 2
    moe_layer_start_index: int = 1
    moe_layer_end_index: int = -1
    moe_layer_interval: int = 1

    def decoder(self) -> DecoderSpec:
        if self.use_bias and self.tie_word_embeddings:
            raise self.fail("use_bias", "the head would have one, but is tied to the embeddings")
        return replace(super().decoder(), head_bias=self.use_bias)

    def has_experts(self, layer: int) -> bool:
        end = self.moe_layer_end_index
        last = self.num_hidden_layers - 1 if end == -1 else end
        chosen = (layer + 1) % self.moe_layer_interval == 0
        return chosen and self.moe_layer_start_index <= layer <= last

    def shared(self, intermediate_size: int) -> MLPSpec:
        return replace(super().shared(intermediate_size), bias=self.use_bias)

    def router(self) -> RouterSpec:
        return replace(super().router(), correction="block")


def fill_corrections(weights: Weights, config: Ernie45MoeConfig) -> Weights:
    """Set to zero the corrections that some converters leave out, and say so."""
    gates = [name for name in weights if name.endswith(".mlp.gate.weight")]
    names = [name.replace(".gate.weight", ".e_score_correction_bias") for name in gates]
    missing = [name for name in names if name not in weights]
    if missing:
        _log.warning(
            "the checkpoint lacks the learned corrections of its routers, such as %r: "
            "it was converted without them, and experts are chosen as if they were zero",
            missing[0],
        )
    return weights | {name: mx.zeros((config.num_experts,)) for name in missing}


DENSE = Architecture("ernie4_5", Ernie45Config, causal_lm)
MOE = Architecture(
    "ernie4_5_moe",
    Ernie45MoeConfig,
    causal_lm,
    (
        *COMMON_RULES,
        Drop("*.mtp_*"),
        Rename(r"(.*)\.mlp(?:\.gate)?\.moe_statics\.", r"\1.mlp."),
        Reshape("*.mlp.e_score_correction_bias", lambda config: (config.num_experts,)),
        *stack_experts("mlp.experts", "mlp.switch_mlp"),
        fill_corrections,
    ),
)
