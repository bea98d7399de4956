"""GPT-2 and StarCoder 1: learned positions, one projection for queries, keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename, Transpose


@dataclass(frozen=True, kw_only=True)
class GPTConfig(DecoderConfig):
    """The keys that GPT-2 gave to others.

    The MLP is four times as wide as the model unless `n_inner` says otherwise.
    """

    aliases: ClassVar[Mapping[str, str]] = {
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
        "n_positions": "max_position_embeddings",
        "n_inner": "intermediate_size",
        "activation_function": "hidden_act",
    }

    hidden_act: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    max_position_embeddings: int | None = 1024

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        hidden = data.get("hidden_size", data.get("n_embd"))
        if data.get("n_inner") is None and isinstance(hidden, int):
            data = {**data, "n_inner": 4 * hidden}
        # Where both spellings of a key stand in a config, this family's own is meant.
        known = {cls.aliases.get(key, key) for key in data if key in cls.aliases}
        return super().from_dict({key: value for key, value in data.items() if key not in known})

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_epsilon, kind="layer", bias=True)


@dataclass(frozen=True, kw_only=True)
class GPT2Config(GPTConfig):
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True

    def decoder(self) -> DecoderSpec:
        return replace(
            super().decoder(),
            positions=self.max_position_embeddings,
            names=DecoderNames(embeddings="wte", positions="wpe", layers="h", norm="ln_f"),
        )

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="ln_1", before_mlp="ln_2"),
            names=BlockNames(attention="attn"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        scale = self.head_size**-0.5 if self.scale_attn_weights else 1.0
        if self.scale_attn_by_inverse_layer_idx:
            scale /= layer + 1
        return replace(
            super().attention(layer),
            scale=scale,
            fused="rows",
            qkv_bias=True,
            out_bias=True,
            names=AttentionNames(qkv="c_attn", o="c_proj"),
        )

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="c_fc", down="c_proj")
        return replace(super().dense(layer), gated=False, bias=True, names=names)

    def rope(self, layer: int) -> RopeSpec | None:
        return None


@dataclass(frozen=True, kw_only=True)
class GPTBigCodeConfig(GPT2Config):
    """StarCoder 1: all queries share one key and value, unless not `multi_query`."""

    hidden_act: str = "gelu_pytorch_tanh"
    multi_query: bool = True

    @property
    def kv_heads(self) -> int:
        return 1 if self.multi_query else self.num_attention_heads

    def decoder(self) -> DecoderSpec:
        spec = super().decoder()
        return replace(spec, names=replace(spec.names, decoder="transformer"))

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), fused="rows" if self.multi_query else "groups")


BUFFERS = Drop("*.attn.bias", "*.attn.masked_bias")
BIGCODE = Architecture("gpt_bigcode", GPTBigCodeConfig, causal_lm, (BUFFERS, *COMMON_RULES))
ARCHITECTURE = Architecture(
    "gpt2",
    GPT2Config,
    causal_lm,
    (
        BUFFERS,
        # Public checkpoints have (inputs, outputs), and no "model." in front.
        Rename(r"transformer\.", ""),
        Transpose("h.*.c_*.weight"),
        Rename(r"(h|wte|wpe|ln_f)\.", r"model.\1."),
        *COMMON_RULES,
    ),
)
