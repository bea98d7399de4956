"""Normalisations."""

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.module import Module


@dataclass(frozen=True)
class NormSpec:
    """`rms`: x / rms(x) * w (Zhang and Sennrich, 2019); `rms_offset`: with 1 + w, as in Gemma."""

    eps: float
    kind: Literal["rms", "rms_offset"] = "rms"

    def build(self, dims: int) -> nn.Module:
        if self.kind == "rms_offset":
            return OffsetRMSNorm(dims, self.eps)
        return nn.RMSNorm(dims, self.eps)


class OffsetRMSNorm(Module):
    """RMS norm that multiplies by 1 + weight.

    The sum and the product are float32 whatever the weight's type: in bfloat16, 1 + weight
    would lose most of the weight.
    """

    def __init__(self, dims: int, eps: float) -> None:
        super().__init__()
        self.weight = mx.zeros((dims,))
        self.eps = eps

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        if self.get("_summed") is not weight:
            # Kept between calls, and made again as soon as the weight is another array.
            self._summed = weight
            self._scale = weight.astype(mx.float32) + 1.0
        return mx.fast.rms_norm(x, self["_scale"], self.eps).astype(x.dtype)

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"
