"""Attention by the keys and values of an earlier layer, each with its own norm (Hunyuan)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.attention import Attention, AttentionSpec
from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.plan import Plan

Lent = tuple[mx.array, mx.array]
"""The rotated keys and the values of new tokens, (B, key-value heads, L, head_dim)."""


@dataclass(frozen=True, kw_only=True)
class CrossLayerSpec(AttentionSpec):
    """A layer that `borrows` has no projections for keys and values."""

    borrows: bool = False

    def plan(self) -> Plan:
        plan = super().plan()
        if not self.borrows:
            # A scale moved into values would reach the borrowers' output projections too.
            return replace(plan, scale_groups=())
        own = (self.names.q, self.names.o)
        return Plan({name: plan.shards[name] for name in own})

    def readers(self) -> tuple[str, ...]:
        return (self.names.q,) if self.borrows else super().readers()

    def build(self) -> "CrossLayerAttention":
        return CrossLayerAttention(self)


class CrossLayerAttention(Attention):
    """Each layer keeps the keys as it normalised them, in a cache of its own."""

    def __init__(self, spec: CrossLayerSpec) -> None:
        super().__init__(spec)
        # What is lent is rotated and not yet normalised: rotation comes before `look`.
        self._turn, self._rope = self._rope, None
        self._borrows = spec.borrows

    def pass_on(
        self, x: mx.array, lent: Lent | None, mask: Mask, cache: Cache | None
    ) -> tuple[mx.array, Lent]:
        """Return the output for x (B, L, hidden), and the keys and values to lend."""
        rope = self._turn
        if not self._borrows:
            queries, keys, values = self.read(x)
            if rope is not None:
                queries, keys = rope(queries, keys, cache)
        elif lent is not None:
            keys, values = lent
            queries = mx.unflatten(self[self._names.q](x), -1, (self.spec.heads, -1))
            queries = queries.transpose(0, 2, 1, 3)
            if rope is not None:
                offset = 0 if cache is None else cache.offset
                queries = rope.rotate(queries, offset, rope.base, rope.freqs)
        else:
            raise ValueError("a layer that borrows keys has none before it that lends")
        found, _ = self.look(queries, keys, values, mask, cache)
        return self.write(x, found), (keys, values)

    def _add_projections(self, spec: AttentionSpec) -> None:
        super()._add_projections(spec)
        if isinstance(spec, CrossLayerSpec) and spec.borrows:
            del self[spec.names.k], self[spec.names.v]


@dataclass(frozen=True, kw_only=True)
class CrossLayerDecoderSpec(DecoderSpec):
    def build(self) -> "CrossLayerDecoder":
        return CrossLayerDecoder(self)


class CrossLayerDecoder(Decoder):
    """Hands the keys and values of a layer to those after it that have none."""

    def through_layers(
        self, h: mx.array, masks: Sequence[Mask], cache: Sequence[Cache | None]
    ) -> mx.array:
        lent: Lent | None = None
        for layer, mask, own in zip(self[self._names.layers], masks, cache, strict=True):
            read = layer.opened(h)
            attended, lent = layer.mixer.pass_on(read, lent, mask, own)
            h = layer.closed(h, read, attended)
        return h
