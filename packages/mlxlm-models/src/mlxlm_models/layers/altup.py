"""Alternating updates (Baykal et al., 2023) and a low-rank residual, as Gemma 3n has them."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Mask

from mlxlm_models.layers.activations import ACTIVATIONS
from mlxlm_models.layers.mlp import GatedMLP, MLPSpec
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.per_layer import (
    PerLayerBlock,
    PerLayerBlockSpec,
    PerLayerDecoder,
    PerLayerDecoderSpec,
)


@dataclass(frozen=True, kw_only=True)
class AltUpDecoderSpec(PerLayerDecoderSpec):
    """The stream is `streams` wide: each layer works on one and updates them all."""

    streams: int

    def build(self) -> "AltUpDecoder":
        return AltUpDecoder(self)


class AltUpDecoder(PerLayerDecoder):
    def __init__(self, spec: AltUpDecoderSpec) -> None:
        super().__init__(spec)
        hidden, others = spec.hidden_size, range(1, spec.streams)
        self.altup_projections = [nn.Linear(hidden, hidden, bias=False) for _ in others]
        self.altup_unembed_projections = [nn.Linear(hidden, hidden, bias=False) for _ in others]

    def widen(self, h: mx.array) -> mx.array:
        """Return (streams, B, L, hidden): h and its projections, of equal magnitude."""
        size = _magnitude(h)
        others = [_of_magnitude(project(h), size) for project in self["altup_projections"]]
        return mx.stack([h, *others])

    def narrow(self, h: mx.array) -> mx.array:
        size = _magnitude(h[0])
        projections = self["altup_unembed_projections"]
        others = [_of_magnitude(f(x), size) for f, x in zip(projections, h[1:], strict=True)]
        return mx.stack([h[0], *others]).mean(axis=0)


def _magnitude(x: mx.array) -> mx.array:
    return mx.sqrt(mx.square(x).mean(axis=-1, keepdims=True))


def _of_magnitude(x: mx.array, size: mx.array) -> mx.array:
    own = mx.sqrt(mx.maximum(mx.square(x).mean(axis=-1, keepdims=True), 1e-5))
    return x * size / own


@dataclass(frozen=True, kw_only=True)
class AltUpBlockSpec(PerLayerBlockSpec):
    """`active` is the stream that the block works on; `rank` is that of its residual."""

    streams: int
    active: int
    scale_corrected: bool
    rank: int

    def build(self) -> "AltUpBlock":
        return AltUpBlock(self)


class AltUpBlock(PerLayerBlock):
    """x is (streams, B, L, hidden)."""

    def __init__(self, spec: AltUpBlockSpec) -> None:
        super().__init__(spec)
        self._active = spec.active
        self.altup = AltUp(spec)
        self.laurel = LowRankResidual(spec.attention.hidden_size, spec.rank, spec.norm)

    def step(
        self, x: mx.array, mask: Mask, cache: Any, own: mx.array | None
    ) -> tuple[mx.array, Any]:
        predicted = self["altup"].predict(x)
        active = predicted[self._active]
        normed = self[self._before_attention](active)
        attended, seen = self.attended(normed, mask, cache)
        attended = active + self._added(attended, self._after_attention)
        h = (attended + self["laurel"](normed)) * math.sqrt(0.5)
        h = h + self._added(self.fed_forward(h), self._after_mlp)
        streams = self["altup"].correct(predicted, h)
        if own is not None:
            more = self.from_own(self["altup"].scaled(streams[self._active]), own)
            streams = mx.concatenate([streams[:1], streams[1:] + more])
        return streams, seen


class AltUp(Module):
    """Predicts all streams before a layer, and corrects them by what it made of the active one."""

    def __init__(self, spec: AltUpBlockSpec) -> None:
        super().__init__()
        hidden, streams = spec.attention.hidden_size, spec.streams
        self._streams, self._active = streams, spec.active
        self._input_scale = 1 / hidden
        self.modality_router = nn.Linear(hidden, streams, bias=False)
        self.router_norm = spec.norm.build(hidden)
        self.prediction_coefs = nn.Linear(streams, streams * streams, bias=False)
        self.correction_coefs = nn.Linear(streams, streams, bias=False)
        self.correct_output_scale = mx.zeros((hidden,))
        self._scales = spec.scale_corrected

    def predict(self, x: mx.array) -> mx.array:
        """Return each stream plus a mixture of all."""
        mix = self["prediction_coefs"](self._modes(x[self._active]))
        mix = mx.unflatten(mix, -1, (self._streams, self._streams))  # (B, L, to, from)
        mixed = mix @ x.transpose(1, 2, 0, 3)
        return x + mixed.transpose(2, 0, 1, 3)

    def correct(self, predicted: mx.array, h: mx.array) -> mx.array:
        """Return each stream moved by what is new in h, as far as its coefficient says."""
        share = self["correction_coefs"](self._modes(h)) + 1.0
        new = h - predicted[self._active]
        return predicted + share.transpose(2, 0, 1)[..., None] * new  # type: ignore[no-any-return]

    def scaled(self, h: mx.array) -> mx.array:
        return h * self["correct_output_scale"] if self._scales else h

    def _modes(self, h: mx.array) -> mx.array:
        routed = self["modality_router"](self["router_norm"](h) * self._input_scale)
        return mx.tanh(routed.astype(mx.float32)).astype(h.dtype)


class LowRankResidual(Module):
    """x + norm(right(left(x)))."""

    def __init__(self, hidden: int, rank: int, norm: NormSpec) -> None:
        super().__init__()
        self.linear_left = nn.Linear(hidden, rank, bias=False)
        self.linear_right = nn.Linear(rank, hidden, bias=False)
        self.post_laurel_norm = norm.build(hidden)

    def __call__(self, x: mx.array) -> mx.array:
        low = self["linear_right"](self["linear_left"](x))
        return x + self["post_laurel_norm"](low)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class SparseMLPSpec(MLPSpec):
    """A gated MLP of whose gate a share `sparsity` is cut to zero, as if it were Gaussian."""

    sparsity: float

    def build(self) -> nn.Module:
        return SparseMLP(self)


class SparseMLP(GatedMLP):
    def __init__(self, spec: SparseMLPSpec) -> None:
        super().__init__(spec)
        self._deviations = NormalDist().inv_cdf(spec.sparsity)
        if not isinstance(spec.activation, str):
            raise TypeError(f"{spec.activation} is a gate; a sparse MLP has one of its own")
        self._activation = ACTIVATIONS[spec.activation]

    def _inner(self, x: mx.array) -> mx.array:
        gate = self[self._gate_name](x)
        cut = gate.mean(axis=-1, keepdims=True) + gate.std(axis=-1, keepdims=True) * (
            self._deviations
        )
        return self._activation(mx.maximum(gate - cut, 0)) * self[self._up](x)  # type: ignore[no-any-return]
