"""Latent attention to the tokens that an indexer chooses (DeepSeek-V3.2, 2025)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, CacheList, Mask

from mlxlm_models.layers.block import BlockSpec, DecoderBlock
from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.indexer import IndexerSpec
from mlxlm_models.layers.mla import LatentAttention, MLASpec
from mlxlm_models.layers.plan import Plan


@dataclass(frozen=True, kw_only=True)
class SparseMLASpec(MLASpec):
    """Without an `indexer`, a layer attends to what the layer before it chose."""

    indexer: IndexerSpec | None

    @property
    def mask_array(self) -> bool:
        return True

    def plan(self) -> Plan:
        plan = super().plan()
        if self.indexer is None:
            return plan
        # The indexer is whole everywhere, and reads the queries' latent too.
        groups = tuple(
            replace(group, layers=(*group.layers, "indexer.wq_b"), within="")
            for group in plan.scale_groups
        )
        return replace(plan, scale_groups=groups)

    def readers(self) -> tuple[str, ...]:
        own = ("indexer.wk", "indexer.weights_proj") if self.indexer else ()
        return (*super().readers(), *own)

    def build(self) -> "SparseLatentAttention":
        return SparseLatentAttention(self)


class SparseLatentAttention(LatentAttention):
    """The cache is a list: of latents, and of the indexer's keys where there is one."""

    def __init__(self, spec: SparseMLASpec) -> None:
        super().__init__(spec)
        self._indexes = spec.indexer is not None
        if spec.indexer is not None:
            self.indexer = spec.indexer.build()

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        return self.choose_and_attend(x, mask, cache, None)[0]

    def choose_and_attend(
        self, x: mx.array, mask: Any, cache: Any, chosen: mx.array | None
    ) -> tuple[mx.array, mx.array | None]:
        """Return the output, and the places (B, L, k) of the tokens that it is of; None for all.

        `chosen` are those of the layer before, for a layer that doesn't choose. A `mask` is
        an array.
        """
        query_input = self.query_input(x)
        own, index = cache, None
        if self._indexes:
            own, index = (None, None) if cache is None else cache
            chosen = self["indexer"](x, query_input, mask, index)
        q_nope, q_rope, seen = self.project(x, query_input, own)
        if chosen is not None and x.shape[1] == 1:
            seen, mask = _taken(seen, mask, chosen)
        elif chosen is not None:
            mask = _narrowed(mask, chosen, self._keys(seen))
        return self.attend(q_nope, q_rope, seen, mask, own), chosen

    def make_cache(self) -> Cache:
        latents = super().make_cache()
        return CacheList(latents, self["indexer"].make_cache()) if self._indexes else latents

    def _keys(self, seen: tuple[Any, Any]) -> int:
        latents = seen[0]
        return int((latents[0] if isinstance(latents, tuple) else latents).shape[-2])


def _taken(seen: Any, mask: mx.array | None, chosen: mx.array) -> tuple[Any, mx.array | None]:
    """Return the chosen keys alone, of a single query, and what the mask says of them."""
    places = chosen[:, :, :, None]  # (B, 1, k, 1)

    def some(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(some(array) for array in part)
        return mx.take_along_axis(part, places, axis=2)

    if mask is not None:
        mask = mx.broadcast_to(mask, (len(chosen), 1, 1, mask.shape[-1]))
        mask = mx.take_along_axis(mask, chosen[:, :, None], axis=-1)
    return (some(seen[0]), some(seen[1])), mask


def _narrowed(mask: mx.array | None, chosen: mx.array, keys: int) -> mx.array:
    """Return the mask (B, 1, L, keys) with what wasn't chosen hidden too."""
    among = mx.zeros((*chosen.shape[:2], keys), mx.bool_)
    among = mx.put_along_axis(among, chosen, mx.array(True), axis=-1)[:, None]
    if mask is None:
        return among
    return among & mask if mask.dtype == mx.bool_ else mx.where(among, mask, -mx.inf)


@dataclass(frozen=True, kw_only=True)
class ChoosingDecoderSpec(DecoderSpec):
    """Layers hand on what they chose: each `attention` is a `SparseMLASpec`."""

    def build(self) -> "ChoosingDecoder":
        return ChoosingDecoder(self)


class ChoosingDecoder(Decoder):
    """A decoder of which some layers attend to what an earlier layer chose (GLM 5)."""

    def through_layers(
        self, h: mx.array, masks: Sequence[Mask], cache: Sequence[Cache | None]
    ) -> mx.array:
        chosen: mx.array | None = None
        for layer, mask, own in zip(self[self._names.layers], masks, cache, strict=True):
            h, chosen = layer.step(h, mask, own, chosen)
        return h


@dataclass(frozen=True, kw_only=True)
class ChoosingBlockSpec(BlockSpec):
    def build(self) -> "ChoosingBlock":
        return ChoosingBlock(self)


class ChoosingBlock(DecoderBlock):
    """`step` takes what the layer before chose as well, and returns what this one did."""

    def step(
        self, x: mx.array, mask: Mask, cache: Cache | None, chosen: mx.array | None
    ) -> tuple[mx.array, mx.array | None]:
        attention = self[self._attention]
        h, chosen = attention.choose_and_attend(self["input_layernorm"](x), mask, cache, chosen)
        x = x + h
        return x + self[self._mlp](self["post_attention_layernorm"](x)), chosen
