"""Rotary position embeddings (Su et al., 2021) and their long-context variants.

Specs are frozen and hashable: equal ones share one rotation. Frequencies are computed in
float64, and passed to the kernel as `freqs`: reciprocals of the usual inverse frequencies.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import mlx.core as mx

Offset = int | mx.array
"""Position of the first token: one number, or one per sequence of the batch."""


@dataclass(frozen=True)
class RopeSpec:
    """Rotate the first `dims` features of each head.

    `freqs` replaces the geometric series of `base`. `scale` multiplies positions,
    `magnitude` the rotated features (YaRN, LongRoPE). `traditional` pairs neighbouring
    features, instead of one from each half.
    """

    dims: int
    base: float = 10000.0
    scale: float = 1.0
    freqs: tuple[float, ...] | None = None
    magnitude: float = 1.0
    traditional: bool = False

    def build(self) -> "Rope":
        return _build(self)


@dataclass(frozen=True)
class LongRopeSpec(RopeSpec):
    """`freqs` up to `original_length` tokens in all, `long_freqs` beyond (Ding et al., 2024)."""

    long_freqs: tuple[float, ...] = ()
    original_length: int = 0


@dataclass(frozen=True)
class DynamicRopeSpec(RopeSpec):
    """NTK scaling: beyond `original_length` tokens in all, the base grows with the length."""

    factor: float = 1.0
    original_length: int = 0


@cache
def _build(spec: RopeSpec) -> "Rope":
    if isinstance(spec, LongRopeSpec):
        return LongRope(spec)
    if isinstance(spec, DynamicRopeSpec):
        return DynamicRope(spec)
    return Rope(spec) if spec.magnitude == 1.0 else MagnifiedRope(spec)


class Rope:
    """x (B, heads, L, head_dim) at positions offset, offset + 1, … → the same shape, rotated."""

    def __init__(self, spec: RopeSpec) -> None:
        self.dims = spec.dims
        self.base = None if spec.freqs else spec.base
        self.scale = spec.scale
        self.freqs = mx.array(spec.freqs) if spec.freqs else None
        self.traditional = spec.traditional

    def __call__(self, x: mx.array, offset: Offset) -> mx.array:
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=self.base,
            scale=self.scale,
            offset=offset,
            freqs=self.freqs,
        )


class MagnifiedRope(Rope):
    """A rotation that also multiplies what it rotates."""

    def __init__(self, spec: RopeSpec) -> None:
        super().__init__(spec)
        self.magnitude = spec.magnitude
        self._factors: mx.array | None = None

    def __call__(self, x: mx.array, offset: Offset) -> mx.array:
        return super().__call__(self.magnify(x), offset)

    def magnify(self, x: mx.array) -> mx.array:
        head_dim = x.shape[-1]
        if head_dim == self.dims:
            return x * self.magnitude
        if self._factors is None or self._factors.dtype != x.dtype:
            factors = [self.magnitude] * self.dims + [1.0] * (head_dim - self.dims)
            self._factors = mx.array(factors, x.dtype)
        return x * self._factors


class LongRope(MagnifiedRope):
    """Chooses between two sets of frequencies by the number of tokens so far."""

    def __init__(self, spec: LongRopeSpec) -> None:
        super().__init__(spec)
        self.original_length = spec.original_length
        self.short = mx.array(spec.freqs or ())
        self.long = mx.array(spec.long_freqs)

    def __call__(self, x: mx.array, offset: Offset) -> mx.array:
        length = x.shape[-2]
        if isinstance(offset, int):
            freqs = self.long if offset + length > self.original_length else self.short
        else:
            freqs = mx.where(offset.max() + length > self.original_length, self.long, self.short)
        return mx.fast.rope(
            self.magnify(x),
            self.dims,
            traditional=self.traditional,
            base=None,
            scale=self.scale,
            offset=offset,
            freqs=freqs,
        )


class DynamicRope(Rope):
    """Computes the base anew as the text grows."""

    def __init__(self, spec: DynamicRopeSpec) -> None:
        super().__init__(spec)
        self.first_base = spec.base
        self.factor = spec.factor
        self.original_length = spec.original_length
        self._powers = mx.array([i / spec.dims for i in range(0, spec.dims, 2)])

    def __call__(self, x: mx.array, offset: Offset) -> mx.array:
        length = x.shape[-2]
        base: float | None = None
        freqs: mx.array | None = None
        if isinstance(offset, int):
            base = self.first_base * self._growth(max(offset + length, self.original_length))
        else:
            longest = mx.maximum(offset.max() + length, self.original_length)
            freqs = (self.first_base * self._growth(longest)) ** self._powers
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=base,
            scale=self.scale,
            offset=offset,
            freqs=freqs,
        )

    def _growth(self, length: Any) -> Any:
        stretched = self.factor * length / self.original_length - (self.factor - 1)
        return stretched ** (self.dims / (self.dims - 2))
