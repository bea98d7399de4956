"""Phi 3 small: near and strided blocks by turns with full attention, gegelu, muP's scales."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import mlx.core as mx

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig
from mlxlm_models.layers.activations import ClippedSwiGLU
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.decoder import CausalLM, DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.spec import recast
from mlxlm_models.layers.strided import StridedAttentionSpec


@dataclass(frozen=True, kw_only=True)
class Phi3SmallConfig(DecoderConfig):
    """Every n-th layer sees all, for n of `dense_attention_every_n_layers`.

    `dummy_token_indices` are rows of the vocabulary that no token has.
    """

    aliases: ClassVar[Mapping[str, str]] = {
        "ff_intermediate_size": "intermediate_size",
        "rope_embedding_base": "rope_theta",
    }

    hidden_act: str = "gegelu"
    layer_norm_epsilon: float = 1e-5
    max_position_embeddings: int | None = 8192
    rope_theta: float = 1000000.0
    rope_position_scale: float = 1.0
    gegelu_limit: float | None = 20.0
    tie_word_embeddings: bool = True
    mup_use_scaling: bool = True
    mup_attn_multiplier: float = 1.0
    mup_embedding_multiplier: float | None = 10.0
    mup_width_multiplier: float | None = 8.0
    dense_attention_every_n_layers: int | None = 2
    blocksparse_block_size: int = 64
    blocksparse_num_local_blocks: int = 16
    blocksparse_vert_stride: int = 8
    blocksparse_homo_head_pattern: bool = False
    dummy_token_indices: list[int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in (
            "blocksparse_block_size",
            "blocksparse_num_local_blocks",
            "blocksparse_vert_stride",
        ):
            if getattr(self, key) <= 0:
                raise self.fail(key, f"{getattr(self, key)} is not above zero")
        if self.hidden_act != "gegelu":
            raise self.fail("hidden_act", f"{self.hidden_act!r} is not gegelu")

    def decoder(self) -> DecoderSpec:
        width = self.mup_width_multiplier
        return replace(
            super().decoder(),
            embedding_scale=self.mup_embedding_multiplier or None,
            logit_scale=1 / width if width else None,
            names=DecoderNames(norm="final_layernorm"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        size, every = self.head_size, self.dense_attention_every_n_layers
        spec = replace(
            super().attention(layer),
            scale=self.mup_attn_multiplier / size if self.mup_use_scaling else size**-0.5,
            fused="groups",
            qkv_bias=True,
            out_bias=True,
            names=AttentionNames(qkv="query_key_value", o="dense"),
        )
        if every and (layer + 1) % every == 0:
            return spec
        return recast(
            StridedAttentionSpec,
            spec,
            block=self.blocksparse_block_size,
            near=self.blocksparse_num_local_blocks,
            stride=self.blocksparse_vert_stride,
            same=self.blocksparse_homo_head_pattern,
        )

    def dense(self, layer: int) -> MLPSpec:
        limit = math.inf if self.gegelu_limit is None else self.gegelu_limit
        return MLPSpec(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            activation=ClippedSwiGLU(limit, alpha=1.702, shift=1.0),
            bias=True,
            fused=True,
            interleaved=True,
            names=MLPNames(gate_up="up_proj"),
        )

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_epsilon, kind="layer", bias=True)

    def rope(self, layer: int) -> RopeSpec | None:
        spec = super().rope(layer)
        return None if spec is None else replace(spec, scale=spec.scale * self.rope_position_scale)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = super().rope_values(layer_type)
        short, long = values.get("short_mscale"), values.get("long_mscale")
        if short != long:
            raise self.fail("long_mscale", f"{long} is not the short one, {short}")
        return values if short is None else {**values, "attention_factor": short}


class Phi3SmallLM(CausalLM):
    """The logits of dummy tokens are as low as they can be."""

    def __init__(self, spec: DecoderSpec, dummies: list[int]) -> None:
        super().__init__(spec)
        known = set(dummies)
        self._is_token = [i not in known for i in range(spec.vocab_size)] if known else None
        self._tokens: mx.array | None = None

    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits of normalised hidden states (…, hidden)."""
        out = super().logits(hidden)
        if self._is_token is None:
            return out
        if self._tokens is None:
            self._tokens = mx.array(self._is_token)
        return mx.where(self._tokens, out, mx.finfo(out.dtype).min)


def build(config: Phi3SmallConfig) -> Phi3SmallLM:
    return Phi3SmallLM(config.decoder(), config.dummy_token_indices or [])


ARCHITECTURE = Architecture("phi3small", Phi3SmallConfig, build)
