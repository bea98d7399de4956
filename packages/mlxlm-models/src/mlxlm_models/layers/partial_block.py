"""Layers that lack a half, or have one linear map in its place (Puzzle; Bercovich et al., 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import PRE_NORM, FeedForwardSpec
from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.module import Held, Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup


@dataclass(frozen=True)
class LinearHalf:
    """One linear map in place of a half."""

    hidden_size: int

    def plan(self) -> Plan:
        """Return nothing to divide: what it gives is whole."""
        return Plan()

    def readers(self) -> tuple[str, ...]:
        return ("linear",)

    def build(self) -> Held:
        return Held("linear", nn.Linear(self.hidden_size, self.hidden_size, bias=False))


@dataclass(frozen=True, kw_only=True)
class PartialBlockSpec:
    """`attention` and `mlp` are None where the layer has no such half.

    `linear_attention` is in the place of attention; such a layer looks at no other token.
    """

    hidden_size: int
    norm: NormSpec
    attention: AttentionSpec | None = None
    linear_attention: LinearHalf | None = None
    mlp: FeedForwardSpec | LinearHalf | None = None

    def plan(self) -> Plan:
        total = Plan()
        for norm, name, half in (
            (PRE_NORM.before_attention, "self_attn", self.attention or self.linear_attention),
            (PRE_NORM.before_mlp, "mlp", self.mlp),
        ):
            if half is not None:
                readers = tuple(f"{name}.{reader}" for reader in half.readers())
                total += half.plan().under(name)
                total += Plan(scale_groups=(ScaleGroup(str(norm), readers, name),))
        return total

    def build(self) -> "PartialBlock":
        return PartialBlock(self)


class PartialBlock(Module):
    """h = x + attention(norm(x)); h + mlp(norm(h)), as far as there are halves."""

    def __init__(self, spec: PartialBlockSpec) -> None:
        super().__init__()
        self.spec = spec
        mixer = spec.attention or spec.linear_attention
        self._mixes, self._attends = mixer is not None, spec.attention is not None
        if mixer is not None:
            self.input_layernorm = spec.norm.build(spec.hidden_size)
            self.self_attn = mixer.build()
        self._feeds = spec.mlp is not None
        if spec.mlp is not None:
            self.post_attention_layernorm = spec.norm.build(spec.hidden_size)
            self.mlp = spec.mlp.build()

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        if self._mixes:
            h = self["input_layernorm"](x)
            x = x + (self["self_attn"](h, mask, cache) if self._attends else self["self_attn"](h))
        if self._feeds:
            x = x + self["mlp"](self["post_attention_layernorm"](x))
        return x

    @property
    def attends(self) -> bool:
        """Whether the layer has keys and values to keep."""
        return self._attends

    def make_cache(self) -> Cache:
        return self["self_attn"].make_cache()  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class PartialDecoderSpec(DecoderSpec):
    def build(self) -> "PartialDecoder":
        return PartialDecoder(self)


class PartialDecoder(Decoder):
    """Has as many caches as layers that attend."""

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        """See `Decoder`."""
        layers: list[PartialBlock] = self[self._names.layers]
        count = sum(layer.attends for layer in layers)
        if cache is not None:
            if len(cache) != count:
                raise ValueError(
                    f"a cache of {len(cache)} layers for a model of which {count} attend: "
                    f"make it with make_prompt_cache(model)"
                )
            own = iter(cache)
            cache = [next(own) if layer.attends else None for layer in layers]
        return super().__call__(tokens, cache, input_embeddings)

    def make_cache(self) -> list[Cache]:
        return [layer.make_cache() for layer in self[self._names.layers] if layer.attends]
