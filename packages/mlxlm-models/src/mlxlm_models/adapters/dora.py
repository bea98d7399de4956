"""Weight-decomposed low-rank adapters (DoRA, https://arxiv.org/abs/2402.09353).

The adapted weight keeps the direction of weight plus low-rank update, and takes its
row lengths from `m` (outputs,). Shapes of `lora_a` and `lora_b` as in `lora`.
"""

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.adapters.lora import float_weight, start_value, weight_shape
from mlxlm_models.layers.module import Module


class DoRALinear(Module):
    """A linear layer, plain or quantized, with a learned length and low-rank direction."""

    def __init__(
        self, linear: nn.Module, rank: int = 8, scale: float = 20.0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        outputs, inputs = weight_shape(linear)
        self.linear = linear
        self.dropout = nn.Dropout(dropout)
        self.scale = scale
        self.lora_a = start_value(inputs, rank, inputs)
        self.lora_b = mx.zeros((rank, outputs))
        self.m = row_lengths(float_weight(linear))

    def __call__(self, x: mx.array) -> mx.array:
        weight = float_weight(self.linear)
        update = self.dropout(x) @ self.lora_a @ self.lora_b
        y = x @ weight.T + (self.scale * update).astype(x.dtype)
        adapted = weight + self.scale * (self.lora_a @ self.lora_b).T
        y = _stretch(self.m, adapted).astype(x.dtype) * y
        return y + self.linear.bias if "bias" in self.linear else y


class DoRAEmbedding(Module):
    """An embedding with a learned length per row and low-rank direction."""

    def __init__(
        self, embedding: nn.Module, rank: int = 8, scale: float = 20.0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        rows, dims = weight_shape(embedding)
        self.embedding = embedding
        self.dropout = nn.Dropout(dropout)
        self.scale = scale
        self.lora_a = start_value(rows, rank, rows)
        self.lora_b = mx.zeros((rank, dims))
        self.m = row_lengths(float_weight(embedding))

    def __call__(self, tokens: mx.array) -> mx.array:
        y: mx.array = self.embedding(tokens)
        update = self.scale * (self.lora_a[tokens] @ self.lora_b)
        stretch = _stretch(self.m[tokens], y + update)
        return stretch[..., None].astype(y.dtype) * (y + self.dropout(update).astype(y.dtype))

    def as_linear(self, x: mx.array) -> mx.array:
        y: mx.array = self.embedding.as_linear(x)
        update = self.dropout(x) @ self.lora_b.T @ self.lora_a.T
        adapted = float_weight(self.embedding) + self.scale * (self.lora_a @ self.lora_b)
        y = y + (self.scale * update).astype(x.dtype)
        return _stretch(self.m, adapted).astype(x.dtype) * y


def row_lengths(weight: mx.array) -> mx.array:
    return mx.linalg.norm(weight.astype(mx.float32), axis=-1)


def _stretch(m: mx.array, adapted: mx.array) -> mx.array:
    # The paper treats the length of the adapted weight as a constant in training (4.3).
    return m / mx.stop_gradient(row_lengths(adapted))
