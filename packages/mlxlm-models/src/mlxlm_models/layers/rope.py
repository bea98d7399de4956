"""Rotary position embeddings (Su et al., 2021) and their long-context variants.

Specs are frozen and hashable: equal ones share one rotation. Frequencies are computed in
float64, and passed to the kernel as `freqs`: reciprocals of the usual inverse frequencies.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache

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
        from mlxlm_models.layers.long_rope import LongRope

        return LongRope(spec)
    if isinstance(spec, DynamicRopeSpec):
        return DynamicRope(spec)
    return Rope(spec) if spec.magnitude == 1.0 else MagnifiedRope(spec)


class Rope:
    """Rotates queries and keys (B, heads, L, head_dim) to the positions after `cache`'s."""

    def __init__(self, spec: RopeSpec) -> None:
        self.dims = spec.dims
        self.base = None if spec.freqs else spec.base
        self.scale = spec.scale
        self.freqs = mx.array(spec.freqs) if spec.freqs else None
        self.traditional = spec.traditional

    def __call__(
        self, queries: mx.array, keys: mx.array, cache: Cache | None = None
    ) -> tuple[mx.array, mx.array]:
        offset = 0 if cache is None else cache.offset
        return (
            self.rotate(queries, offset, self.base, self.freqs),
            self.rotate(keys, offset, self.base, self.freqs),
        )

    def rotate(
        self, x: mx.array, offset: Offset, base: float | None, freqs: mx.array | None
    ) -> mx.array:
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=base,
            scale=self.scale,
            offset=offset,
            freqs=freqs,
        )


class MagnifiedRope(Rope):
    """A rotation that also multiplies what it rotates."""

    def __init__(self, spec: RopeSpec) -> None:
        super().__init__(spec)
        self.magnitude = spec.magnitude
        self._factors: mx.array | None = None

    def rotate(
        self, x: mx.array, offset: Offset, base: float | None, freqs: mx.array | None
    ) -> mx.array:
        return super().rotate(self.magnify(x), offset, base, freqs)

    def magnify(self, x: mx.array) -> mx.array:
        head_dim = x.shape[-1]
        if head_dim == self.dims:
            return x * self.magnitude
        if self._factors is None or self._factors.dtype != x.dtype:
            factors = [self.magnitude] * self.dims + [1.0] * (head_dim - self.dims)
            self._factors = mx.array(factors, x.dtype)
        return x * self._factors


class DynamicRope(Rope):
    """Computes the base anew as the text grows; earlier keys stay as they were rotated."""

    def __init__(self, spec: DynamicRopeSpec) -> None:
        super().__init__(spec)
        self.first_base = spec.base
        self.factor = spec.factor
        self.original_length = spec.original_length
        self._powers = mx.array([i / spec.dims for i in range(0, spec.dims, 2)])

    def __call__(
        self, queries: mx.array, keys: mx.array, cache: Cache | None = None
    ) -> tuple[mx.array, mx.array]:
        offset: Offset = 0 if cache is None else cache.offset
        length = queries.shape[-2]
        if isinstance(offset, int):
            base = self._base(max(offset + length, self.original_length))
            return self.rotate(queries, offset, base, None), self.rotate(keys, offset, base, None)
        # Each sequence of a batch has a base of its own, which the kernel doesn't know.
        bases = self._base(mx.maximum(offset + length, self.original_length))
        positions = (offset[:, None] + mx.arange(length)) * self.scale
        angles = positions[:, None, :, None] * (bases[:, None] ** -self._powers)[:, None, None]
        cos, sin = mx.cos(angles), mx.sin(angles)
        return self._turned(queries, cos, sin), self._turned(keys, cos, sin)

    def _turned(self, x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        """Rotate x (B, heads, L, head_dim) by angles (B, 1, L, dims / 2), in float32."""
        turned, rest = mx.split(x.astype(mx.float32), [self.dims], axis=-1)
        if self.traditional:
            a, b = turned[..., ::2], turned[..., 1::2]
        else:
            a, b = mx.split(turned, 2, axis=-1)
        parts = [a * cos - b * sin, a * sin + b * cos]
        if self.traditional:
            turned = mx.stack(parts, axis=-1).flatten(-2)
        else:
            turned = mx.concatenate(parts, axis=-1)
        return mx.concatenate([turned, rest], axis=-1).astype(x.dtype)

    def _base(self, length: Any) -> Any:
        stretched = self.factor * length / self.original_length - (self.factor - 1)
        return self.first_base * stretched ** (self.dims / (self.dims - 2))
