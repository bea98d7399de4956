"""Normalisations."""

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.module import Module


@dataclass(frozen=True)
class NormSpec:
    """`rms`: x / rms(x) * w (Zhang and Sennrich, 2019); `layer`: Ba et al., 2016.

    `rms_offset` and `layer_offset` multiply by 1 + w, as Gemma and Nemotron do; `rms_input`
    does so before the rms is taken. Without `weight` there is nothing to learn; only layer
    norms may have a `bias`.
    """

    eps: float
    kind: Literal["rms", "rms_offset", "rms_input", "layer", "layer_offset"] = "rms"
    weight: bool = True
    bias: bool = False

    def build(self, dims: int) -> nn.Module:
        if self.kind == "rms_offset":
            return OffsetRMSNorm(dims, self.eps)
        if self.kind == "rms_input":
            return InputRMSNorm(dims, self.eps)
        if self.kind == "layer_offset":
            return OffsetLayerNorm(dims, self.eps, self.bias)
        if self.kind == "layer":
            return nn.LayerNorm(dims, self.eps, affine=self.weight, bias=self.bias)
        return nn.RMSNorm(dims, self.eps) if self.weight else PlainRMSNorm(self.eps)

    def build_per_head(self, heads: int, dims: int) -> nn.Module:
        """Build a norm over the last axis of (…, heads, dims), each head with its own weight."""
        return HeadNorm(heads, dims, self)


class PlainRMSNorm(Module):
    """x / rms(x), with no weight."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, None, self.eps)


class HeadNorm(Module):
    """x (…, heads, dims) normalised over dims in float32, times a weight (heads, dims)."""

    def __init__(self, heads: int, dims: int, spec: NormSpec) -> None:
        super().__init__()
        self.weight = mx.ones((heads, dims))
        self.eps = spec.eps
        self._layer = spec.kind == "layer"

    def __call__(self, x: mx.array) -> mx.array:
        wide = x.astype(mx.float32)
        if self._layer:
            wide = mx.fast.layer_norm(wide, None, None, self.eps)
        else:
            wide = mx.fast.rms_norm(wide, None, self.eps)
        scaled: mx.array = wide * self["weight"]
        return scaled.astype(x.dtype)


class _Offset(Module):
    """A norm whose stored weight is the multiplier less one.

    The sum and the product are float32 whatever the weight's type: in bfloat16, 1 + weight
    would lose most of the weight.
    """

    def __init__(self, dims: int, eps: float) -> None:
        super().__init__()
        self.weight = mx.zeros((dims,))
        self.eps = eps

    def _multiplier(self) -> mx.array:
        weight: mx.array = self["weight"]
        if self.get("_summed") is not weight:
            # Kept between calls, and made again as soon as the weight is another array.
            self._summed = weight
            self._scale = weight.astype(mx.float32) + 1.0
        return self["_scale"]  # type: ignore[no-any-return]

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


class OffsetRMSNorm(_Offset):
    """RMS norm that multiplies by 1 + weight."""

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self._multiplier(), self.eps).astype(x.dtype)


class InputRMSNorm(_Offset):
    """RMS norm of x * (1 + weight)."""

    def __call__(self, x: mx.array) -> mx.array:
        scaled = (x * self._multiplier()).astype(x.dtype)
        return mx.fast.rms_norm(scaled, None, self.eps)


class OffsetLayerNorm(_Offset):
    """Layer norm that multiplies by 1 + weight."""

    def __init__(self, dims: int, eps: float, bias: bool) -> None:
        super().__init__(dims, eps)
        self._biased = bias
        if bias:
            self.bias = mx.zeros((dims,))

    def __call__(self, x: mx.array) -> mx.array:
        bias = self["bias"].astype(mx.float32) if self._biased else None
        return mx.fast.layer_norm(x, self._multiplier(), bias, self.eps).astype(x.dtype)
