"""Talkie: norms with no weights, rotation the other way round, learned gains everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import mlx.core as mx

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import CausalLM, DecoderNames, DecoderSpec
from mlxlm_models.layers.gains import (
    Gain,
    GainedAttentionSpec,
    GainedBlockSpec,
    GainedDecoderSpec,
)
from mlxlm_models.layers.linear import dense_product
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.spec import recast
from mlxlm_models.rules import COMMON_RULES, Drop, Rename


@dataclass(frozen=True, kw_only=True)
class TalkieConfig(DecoderConfig):
    """The MLP is 8/3 times as wide as the model, to the nearest 128, unless it says otherwise."""

    aliases: ClassVar[Mapping[str, str]] = {
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
    }

    rms_norm_eps: float = 2.0**-23  # what torch takes where a norm has none
    rope_theta: float = 1000000.0
    max_position_embeddings: int | None = 2048

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the keys of `config.json`; ConfigError where they cannot be used."""
        hidden = data.get("hidden_size", data.get("n_embd"))
        if data.get("intermediate_size") is None and isinstance(hidden, int):
            data = {**data, "intermediate_size": max(1, round(8 * hidden / 3 / 128)) * 128}
        return super().from_dict(data)

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(embeddings="embed", layers="blocks")
        return recast(GainedDecoderSpec, super().decoder(), embedding_norm=self.norm(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return recast(GainedBlockSpec, super().block(layer), names=BlockNames(attention="attn"))

    def attention(self, layer: int) -> AttentionSpec:
        return recast(
            GainedAttentionSpec,
            super().attention(layer),
            qk_norm=self.norm(),
            norm_rotated=True,
            names=AttentionNames(q="attn_query", k="attn_key", v="attn_value", o="attn_resid"),
        )

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(gate="mlp_gate", up="mlp_linear", down="mlp_resid")
        return replace(super().dense(layer), names=names)

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps, weight=False)

    def rope(self, layer: int) -> RopeSpec | None:
        spec = super().rope(layer)
        return None if spec is None else replace(spec, scale=-spec.scale)


class TalkieLM(CausalLM):
    """The head is a bare matrix, never quantized, with a gain."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__(spec)
        self.lm_head = mx.zeros((spec.vocab_size, spec.hidden_size))
        self.lm_head_gain = Gain("w_g")

    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits of normalised hidden states (…, hidden)."""
        return self["lm_head_gain"](dense_product(hidden, self["lm_head"]))  # type: ignore[no-any-return]


def build(config: TalkieConfig) -> TalkieLM:
    return TalkieLM(config.decoder())


ARCHITECTURE = Architecture(
    "talkie",
    TalkieConfig,
    build,
    (Drop("*lm_head.weight"), Rename(r"(embed|blocks)\.", r"model.\1."), *COMMON_RULES),
)
