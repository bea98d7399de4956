"""A decoder block: a mixer and a feed-forward layer on the residual stream."""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache

from mlxlm_models.layers.attention import Attention, AttentionSpec, Mask
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec


class FeedForwardSpec(Protocol):
    """Anything that builds a module from (B, L, hidden) to the same."""

    def build(self) -> nn.Module: ...


@dataclass(frozen=True)
class NormNames:
    """Names of a block's norms by place; None where the block has none there."""

    before_attention: str | None = None
    after_attention: str | None = None
    before_mlp: str | None = None
    after_mlp: str | None = None


PRE_NORM = NormNames(before_attention="input_layernorm", before_mlp="post_attention_layernorm")
"""Llama's: what each half reads is normalised."""

SANDWICH_NORM = NormNames(
    before_attention="input_layernorm",
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
"""Gemma 2's: what each half reads and what it adds are normalised."""


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """One layer of a decoder."""

    attention: AttentionSpec
    mlp: FeedForwardSpec
    norm: NormSpec
    norms: NormNames = PRE_NORM

    def build(self) -> "DecoderBlock":
        return DecoderBlock(self)


class DecoderBlock(Module):
    """h = x + after(attention(before(x))); h + after(mlp(before(h)))."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.spec = spec
        self.self_attn: Attention = spec.attention.build()
        self.mlp = spec.mlp.build()
        names = spec.norms
        self._before_attention = names.before_attention
        self._after_attention = names.after_attention
        self._before_mlp = names.before_mlp
        self._after_mlp = names.after_mlp
        for name in (
            names.before_attention,
            names.after_attention,
            names.before_mlp,
            names.after_mlp,
        ):
            if name is not None:
                setattr(self, name, spec.norm.build(spec.attention.hidden_size))

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        h: mx.array = self[self._before_attention](x) if self._before_attention else x
        h = self["self_attn"](h, mask, cache)
        if self._after_attention:
            h = self[self._after_attention](h)
        x = x + h
        h = self[self._before_mlp](x) if self._before_mlp else x
        h = self["mlp"](h)
        if self._after_mlp:
            h = self[self._after_mlp](h)
        return x + h

    def make_cache(self) -> Cache:
        return self.self_attn.make_cache()
