"""Learned gains: of heads, of what each half adds, and of the embeddings, added again (Talkie)."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.attention import Attention, AttentionSpec
from mlxlm_models.layers.block import BlockSpec, DecoderBlock
from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.plan import Plan, Shard


class Gain(Module):
    """Multiplies x (…, features) by a number; `name` is what checkpoints call it."""

    def __init__(self, name: str, count: int = 1) -> None:
        super().__init__()
        self._name = name
        self[name] = mx.ones((count,))

    def __call__(self, x: mx.array) -> mx.array:
        return x * self.value(x)

    def value(self, like: mx.array) -> mx.array:
        """Return the numbers in the dtype of `like`."""
        return self[self._name].astype(like.dtype)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class GainedAttentionSpec(AttentionSpec):
    """Queries, normalised after rotation, times a number per head."""

    def plan(self) -> Plan:
        return super().plan() + Plan({"head_gain": Shard("heads")})

    def build(self) -> "GainedAttention":
        return GainedAttention(self)


class GainedAttention(Attention):
    def __init__(self, spec: GainedAttentionSpec) -> None:
        super().__init__(spec)
        self.head_gain = Gain("head_g", spec.heads)

    def _normed(self, queries: mx.array, keys: mx.array) -> tuple[mx.array, mx.array]:
        queries, keys = super()._normed(queries, keys)
        return queries * self["head_gain"].value(queries)[:, None, None], keys


@dataclass(frozen=True, kw_only=True)
class GainedBlockSpec(BlockSpec):
    def build(self) -> "GainedBlock":
        return GainedBlock(self)


class GainedBlock(DecoderBlock):
    """h = x + a attention(before(x)); h + b mlp(before(h)), with numbers a and b."""

    def __init__(self, spec: GainedBlockSpec) -> None:
        super().__init__(spec)
        self.attn_gain = Gain("a_g")
        self.mlp_gain = Gain("a_g")
        self.embed_skip = Gain("a_g")

    def closed(self, x: mx.array, read: mx.array, attended: mx.array) -> mx.array:
        x = x + self["attn_gain"](attended)
        h = self[self._before_mlp](x) if self._before_mlp else x
        return x + self["mlp_gain"](self[self._mlp](h))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class GainedDecoderSpec(DecoderSpec):
    def build(self) -> "GainedDecoder":
        return GainedDecoder(self)


class GainedDecoder(Decoder):
    """Each layer's output gets a share of what the first layer read."""

    def through_layers(
        self, h: mx.array, masks: Sequence[Mask], cache: Sequence[Cache | None]
    ) -> mx.array:
        embedded = h
        for layer, mask, own in zip(self[self._names.layers], masks, cache, strict=True):
            h = layer(h, mask, own) + layer["embed_skip"](embedded)
        return h
