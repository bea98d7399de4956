"""Quantized layers for backends whose packed product is slow for many rows, in float32."""

from typing import Self

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.dequantize import dequantize_float32

ROWS = 6
"""Up to this many rows the packed product is faster than dequantizing first (measured
on CPU: it takes 1.0 to 1.3 ns a weight and row, dequantizing 4.5 ns a weight)."""


class PackedLinear(nn.QuantizedLinear):
    """A quantized linear layer that dequantizes, then multiplies, for more than `ROWS` rows."""

    @classmethod
    def from_quantized(cls, layer: nn.QuantizedLinear) -> Self:
        rows, columns = _dims(layer)
        new = cls(columns, rows, "bias" in layer, layer.group_size, layer.bits, layer.mode)
        new.update(dict(layer))
        return new

    def __call__(self, x: mx.array) -> mx.array:
        if _rows(x) <= ROWS:
            return super().__call__(x)  # type: ignore[no-any-return, no-untyped-call]
        y = x @ dequantize_float32(self).T
        return y + self.bias if "bias" in self else y


class PackedEmbedding(nn.QuantizedEmbedding):
    """A quantized embedding whose `as_linear` is a `PackedLinear`'s product."""

    @classmethod
    def from_quantized(cls, layer: nn.QuantizedEmbedding) -> Self:
        rows, columns = _dims(layer)
        new = cls(rows, columns, layer.group_size, layer.bits, layer.mode)
        new.update(dict(layer))
        return new

    def __call__(self, tokens: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self.weight[tokens],
            self.scales[tokens],
            None if biases is None else biases[tokens],
            self.group_size,
            self.bits,
            mode=self.mode,
            dtype=mx.float32,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        if _rows(x) <= ROWS:
            return super().as_linear(x)  # type: ignore[no-any-return, no-untyped-call]
        return x @ dequantize_float32(self).T


def _dims(layer: nn.Module) -> tuple[int, int]:
    rows, columns = layer.weight.shape
    return rows, columns * 32 // layer.bits


def _rows(x: mx.array) -> int:
    return x.size // x.shape[-1]
