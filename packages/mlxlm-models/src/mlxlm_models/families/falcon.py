"""Falcon 7B to 180B, and RefinedWeb 1B: parallel blocks or not, RoPE or ALiBi."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.alibi import slopes
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import PRE_NORM, SHARED_NORM, BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec


@dataclass(frozen=True, kw_only=True)
class FalconConfig(DecoderConfig):
    """The new architecture has groups of heads, and a norm for each half."""

    aliases: ClassVar[Mapping[str, str]] = {
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
        "num_kv_heads": "num_key_value_heads",
        "n_head_kv": "num_key_value_heads",
        "ffn_hidden_size": "intermediate_size",
        "activation": "hidden_act",
    }

    hidden_act: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    max_position_embeddings: int | None = 2048
    alibi: bool = False
    bias: bool = False
    multi_query: bool = True
    parallel_attn: bool = True
    new_decoder_architecture: bool = False
    num_ln_in_parallel_attn: int | None = None
    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        hidden = data.get("hidden_size")
        if data.get("ffn_hidden_size") is None and isinstance(hidden, int):
            data = {**data, "ffn_hidden_size": 4 * hidden}
        spelled = {cls.aliases[key] for key in data if key in cls.aliases}
        return super().from_dict({key: value for key, value in data.items() if key not in spelled})

    @property
    def kv_heads(self) -> int:
        if self.new_decoder_architecture:
            return super().kv_heads
        return 1 if self.multi_query else self.num_attention_heads

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(
            decoder="transformer", embeddings="word_embeddings", layers="h", norm="ln_f"
        )
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        parallel = self.parallel_attn or self.new_decoder_architecture
        norms = SHARED_NORM if parallel else PRE_NORM
        if self.new_decoder_architecture and (self.num_ln_in_parallel_attn or 2) == 2:
            norms = NormNames(before_attention="ln_attn", before_mlp="ln_mlp")
        return replace(
            super().block(layer),
            parallel=parallel,
            norms=norms,
            names=BlockNames(attention="self_attention"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        spec = replace(
            super().attention(layer),
            fused="groups",
            qkv_bias=self.bias,
            out_bias=self.bias,
            names=AttentionNames(qkv="query_key_value", o="dense"),
        )
        if not self.alibi:
            return spec
        # Falcon scales the biases as it does the scores.
        scale = self.head_size**-0.5
        return replace(spec, alibi=tuple(scale * x for x in slopes(self.num_attention_heads)))

    def dense(self, layer: int) -> MLPSpec:
        names = MLPNames(up="dense_h_to_4h", down="dense_4h_to_h")
        return replace(super().dense(layer), gated=False, bias=self.bias, names=names)

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_epsilon, kind="layer", bias=True)

    def rope(self, layer: int) -> RopeSpec | None:
        return None if self.alibi else super().rope(layer)


ARCHITECTURE = Architecture("falcon", FalconConfig, causal_lm)
