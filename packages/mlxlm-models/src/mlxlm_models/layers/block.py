"""A decoder block: a mixer and a feed-forward layer on the residual stream."""

from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.masks import Mixer
from mlxlm_models.layers.module import Held, Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup


class MixerSpec(Mixer, Protocol):
    """Anything that builds a module like `Attention`."""

    @property
    def hidden_size(self) -> int: ...
    def build(self) -> Any: ...
    def plan(self) -> Plan: ...
    def readers(self) -> tuple[str, ...]: ...


class FeedForwardSpec(Protocol):
    """Anything that builds a module from (B, L, hidden) to the same."""

    def build(self) -> nn.Module: ...
    def plan(self) -> Plan: ...
    def readers(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class NormNames:
    """Names of a block's norms by place; None where the block has none there."""

    before_attention: str | None = None
    after_attention: str | None = None
    before_mlp: str | None = None
    after_mlp: str | None = None


PRE_NORM = NormNames(before_attention="input_layernorm", before_mlp="post_attention_layernorm")
"""Llama's: what each half reads is normalised."""

POST_NORM = NormNames(
    after_attention="post_attention_layernorm", after_mlp="post_feedforward_layernorm"
)
"""OLMo 2's: what each half adds is normalised."""

SANDWICH_NORM = NormNames(
    before_attention="input_layernorm",
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
"""Gemma 2's: what each half reads and what it adds are normalised."""

SHARED_NORM = NormNames(before_attention="input_layernorm")
"""For parallel blocks: both halves read the same normalised stream."""


@dataclass(frozen=True)
class BlockNames:
    """Names of a block's halves; `attention_inner` where attention is one level further down."""

    attention: str = "self_attn"
    mlp: str = "mlp"
    attention_inner: str | None = None

    @property
    def attention_path(self) -> str:
        inner = self.attention_inner
        return self.attention if inner is None else f"{self.attention}.{inner}"


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """One layer of a decoder.

    In a `parallel` block both halves read the block's input; without a norm of its own,
    the feed-forward layer reads what attention reads. `residual_scale` multiplies what each
    half adds. With `norm_sum` the norms after each half are of the sum (Vaswani et al., 2017).
    The norms after the halves are of `norm` unless given.
    """

    attention: MixerSpec
    mlp: FeedForwardSpec
    norm: NormSpec
    attention_out_norm: NormSpec | None = None
    mlp_out_norm: NormSpec | None = None
    norms: NormNames = PRE_NORM
    parallel: bool = False
    residual_scale: float | None = None
    norm_sum: bool = False
    names: BlockNames = BlockNames()

    def plan(self) -> Plan:
        """Return the plans of both halves, and of the norms that they read."""
        attention, mlp = self.names.attention_path, self.names.mlp
        first = tuple(f"{attention}.{name}" for name in self.attention.readers())
        second = tuple(f"{mlp}.{name}" for name in self.mlp.readers())
        norms = self.norms
        if self.parallel and norms.before_mlp is None:
            read = [(norms.before_attention, first + second, "")]
        else:
            read = [(norms.before_attention, first, attention), (norms.before_mlp, second, mlp)]
        groups = tuple(
            ScaleGroup(norm, layers, within)
            for norm, layers, within in read
            if norm is not None and self.norm.weight
        )
        return (
            Plan(scale_groups=groups)
            + self.attention.plan().under(attention)
            + self.mlp.plan().under(mlp)
        )

    def build(self) -> "DecoderBlock":
        if self.norm_sum:
            return SumNormBlock(self)
        return ParallelBlock(self) if self.parallel else DecoderBlock(self)


class Step(Protocol):
    """Another way to compute a block, for inputs that it fits."""

    def fits(self, block: "DecoderBlock", x: mx.array) -> bool: ...
    def __call__(
        self, block: "DecoderBlock", x: mx.array, mask: Mask, cache: Cache | None
    ) -> mx.array: ...


class DecoderBlock(Module):
    """h = x + after(attention(before(x))); h + after(mlp(before(h)))."""

    fast_step: Step | None = None

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.spec = spec
        self._attention, self._mlp = spec.names.attention, spec.names.mlp
        attention, inner = spec.attention.build(), spec.names.attention_inner
        self[self._attention] = attention if inner is None else Held(inner, attention)
        self[self._mlp] = spec.mlp.build()
        names = spec.norms
        self._before_attention = names.before_attention
        self._after_attention = names.after_attention
        self._before_mlp = names.before_mlp
        self._after_mlp = names.after_mlp
        self._scale = spec.residual_scale
        for name, norm in (
            (names.before_attention, spec.norm),
            (names.after_attention, spec.attention_out_norm or spec.norm),
            (names.before_mlp, spec.norm),
            (names.after_mlp, spec.mlp_out_norm or spec.norm),
        ):
            if name is not None:
                self[name] = norm.build(spec.attention.hidden_size)

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        step = self.fast_step
        if step is not None and step.fits(self, x):
            return step(self, x, mask, cache)
        h = self.opened(x)
        return self.closed(x, h, self[self._attention](h, mask, cache))

    def opened(self, x: mx.array) -> mx.array:
        """Return what attention reads."""
        return self[self._before_attention](x) if self._before_attention else x

    def closed(self, x: mx.array, read: mx.array, attended: mx.array) -> mx.array:
        """Return the block's output of its input, what attention read and what it returned."""
        x = x + self._added(attended, self._after_attention)
        h = self[self._before_mlp](x) if self._before_mlp else x
        return x + self._added(self[self._mlp](h), self._after_mlp)

    @property
    def mixer(self) -> nn.Module:
        """The attention, however far down."""
        inner, mixer = self.spec.names.attention_inner, self[self._attention]
        return mixer if inner is None else mixer[inner]  # type: ignore[no-any-return]

    def make_cache(self) -> Cache:
        return self[self._attention].make_cache()  # type: ignore[no-any-return]

    def _added(self, h: mx.array, norm: str | None) -> mx.array:
        if norm is not None:
            h = self[norm](h)
        return h if self._scale is None else h * self._scale


class ParallelBlock(DecoderBlock):
    """x + after(attention(before(x))) + after(mlp(before(x)))."""

    def closed(self, x: mx.array, read: mx.array, attended: mx.array) -> mx.array:
        own: mx.array = self[self._before_mlp](x) if self._before_mlp else read
        attended = self._added(attended, self._after_attention)
        return x + attended + self._added(self[self._mlp](own), self._after_mlp)


class SumNormBlock(DecoderBlock):
    """h = after(x + attention(before(x))); after(h + mlp(before(h)))."""

    def closed(self, x: mx.array, read: mx.array, attended: mx.array) -> mx.array:
        x = x + self._added(attended, None)
        x = self[self._after_attention](x) if self._after_attention else x
        h = self[self._before_mlp](x) if self._before_mlp else x
        x = x + self._added(self[self._mlp](h), None)
        return self[self._after_mlp](x) if self._after_mlp else x
