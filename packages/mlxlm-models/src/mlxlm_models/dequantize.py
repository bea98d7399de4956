"""Float32 weights of packed ones."""

import mlx.core as mx
import mlx.nn as nn


def dequantize_float32(layer: nn.Module) -> mx.array:
    """Return the weight (…, outputs, inputs) of a quantized layer, lazily and in float32.

    4 and 8 bits by ordinary array operations: on CPU about twice as fast as MLX's kernel.
    """
    packed: mx.array = layer.weight
    scales: mx.array = layer.scales
    biases: mx.array | None = layer.get("biases")
    group_size, bits, mode = layer.group_size, layer.bits, layer.mode
    if biases is None:  # one of the floating-point modes, whose scales are bytes
        return mx.dequantize(packed, scales, None, group_size, bits, mode=mode, dtype=mx.float32)
    scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
    if bits not in (4, 8):
        return mx.dequantize(packed, scales, biases, group_size, bits, mode=mode, dtype=mx.float32)
    numbers = packed.view(mx.uint8)
    if bits == 4:  # spread a byte's two nibbles over two bytes
        pairs = numbers.astype(mx.uint16)
        numbers = ((pairs | (pairs << 4)) & 0x0F0F).view(mx.uint8)
    groups = numbers.reshape(*scales.shape, group_size).astype(mx.float32)
    weight = groups * scales[..., None] + biases[..., None]
    return weight.reshape(*weight.shape[:-2], -1)
