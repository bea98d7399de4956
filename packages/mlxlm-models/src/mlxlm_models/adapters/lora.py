"""Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685).

`lora_a` is (inputs, rank) and `lora_b` (rank, outputs), as in mlx-lm's files; the update
is `scale * lora_a @ lora_b`, without a division by the rank.
"""

import math

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.module import Module


class LoRALinear(Module):
    """A linear layer, plain or quantized, plus a low-rank update."""

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

    def __call__(self, x: mx.array) -> mx.array:
        update = self.dropout(x) @ self.lora_a @ self.lora_b
        return self.linear(x) + (self.scale * update).astype(x.dtype)  # type: ignore[no-any-return]


class LoRAEmbedding(Module):
    """An embedding, plain or quantized, plus a low-rank update; also as a tied head."""

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

    def __call__(self, tokens: mx.array) -> mx.array:
        y: mx.array = self.embedding(tokens)
        update = self.dropout(self.lora_a[tokens] @ self.lora_b)
        return y + (self.scale * update).astype(y.dtype)

    def as_linear(self, x: mx.array) -> mx.array:
        update = self.dropout(x) @ self.lora_b.T @ self.lora_a.T
        return self.embedding.as_linear(x) + (self.scale * update).astype(x.dtype)  # type: ignore[no-any-return]


def weight_shape(layer: nn.Module) -> tuple[int, int]:
    """Return (outputs, inputs) of a plain or quantized layer."""
    rows, columns = layer.weight.shape
    return rows, columns * 32 // layer.bits if "scales" in layer else columns


def start_value(rows: int, rank: int, fan_in: int) -> mx.array:
    bound = 1 / math.sqrt(fan_in)
    return mx.random.uniform(-bound, bound, (rows, rank))


def float_weight(layer: nn.Module) -> mx.array:
    """Return a layer's weight (outputs, inputs), dequantized where it is packed."""
    if "scales" not in layer:
        return layer.weight  # type: ignore[no-any-return]
    return mx.dequantize(
        layer.weight,
        layer.scales,
        layer.get("biases"),
        group_size=layer.group_size,
        bits=layer.bits,
        mode=layer.mode,
    )
