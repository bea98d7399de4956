"""Lille 130M: a small Llama under names of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename

_MULTIPLE = 256


@dataclass(frozen=True, kw_only=True)
class LilleConfig(DecoderConfig):
    """The MLP is 8/3 times as wide as the model, in 256s; norms stand in the halves."""

    aliases: ClassVar[Mapping[str, str]] = {
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_kv_heads": "num_key_value_heads",
        "n_layer": "num_hidden_layers",
        "layer_norm_eps": "rms_norm_eps",
        "block_size": "max_position_embeddings",
    }

    rms_norm_eps: float = 1e-5
    rope_traditional: bool = True
    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        width = data.get("n_embd")
        inner = round(int(8 * width / 3) / _MULTIPLE) * _MULTIPLE if isinstance(width, int) else 0
        return super().from_dict({"intermediate_size": inner, **data})

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(decoder="transformer", embeddings="tok_embeddings")
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="attention_norm", before_mlp="feed_forward_norm"),
            names=BlockNames(attention="attention", mlp="feed_forward"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        names = AttentionNames(o="out_proj")
        return replace(super().attention(layer), fused="rows", names=names)


ARCHITECTURE = Architecture(
    "lille-130m",
    LilleConfig,
    causal_lm,
    (
        # The tables of rotation, and copies of the tied head.
        Drop("*.cos_cached", "*.sin_cached", "transformer.output.*", "transformer.lm_head.*"),
        Rename(r"(transformer\.layers\.\d+\.)(attention|feed_forward)\.norm\.", r"\1\2_norm."),
        *COMMON_RULES,
    ),
)
