"""Blocks of 32 weights, repacked into MLX's affine form without a change of value.

MLX: w = scale * q + bias with unsigned q, eight 4-bit or four 8-bit q in a uint32, first
in the lowest bits. All functions take (rows, bytes) uint8 and are lazy.
"""

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

GROUP = 32
PACKED_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
"""Types that MLX can compute with, and their bits."""

_SAFE = 0x6000
"""512 in float16: 128 times a smaller scale still is a finite float16."""


@dataclass(frozen=True)
class Packed:
    """(rows, columns * bits / 32) uint32, and two (rows, columns / 32) float arrays."""

    weight: mx.array
    scales: mx.array
    biases: mx.array


def repack(kind: str, data: NDArray[np.uint8]) -> Packed:
    match kind:
        case "Q4_1":  # w = d * q + m
            blocks = mx.array(data.reshape(len(data), -1, 20))
            factors = blocks[..., :4].view(mx.float16)
            return Packed(_nibbles(blocks[..., 4:]), factors[..., 0], factors[..., 1])
        case "Q4_0":  # w = d * (q - 8)
            blocks = mx.array(data.reshape(len(data), -1, 18))
            scales = _scales(data.reshape(len(data), -1, 18), blocks)
            return Packed(_nibbles(blocks[..., 2:]), scales, scales * -8)
        case "Q8_0":  # w = d * q with signed q
            blocks = mx.array(data.reshape(len(data), -1, 34))
            scales = _scales(data.reshape(len(data), -1, 34), blocks)
            unsigned = (blocks[..., 2:] ^ 0x80).reshape(len(data), -1)
            return Packed(unsigned.view(mx.uint32), scales, scales * -128)
    raise NotImplementedError(f"{kind} has no packed form in MLX")


def _scales(data: NDArray[np.uint8], blocks: mx.array) -> mx.array:
    """Return d (rows, blocks): float16 as stored, or float32 where a bias would overflow."""
    scales = blocks[..., :2].view(mx.float16)[..., 0]
    magnitudes = (data[..., 1].astype(np.uint16) << 8) & 0x7F00
    return scales.astype(mx.float32) if magnitudes.max(initial=0) >= _SAFE else scales


def _nibbles(blocks: mx.array) -> mx.array:
    """(rows, blocks, 16): low nibbles are weights 0 to 15, high ones 16 to 31."""
    words = blocks.view(mx.uint32)
    halves = mx.concatenate([_gather(words), _gather(words >> 4)], axis=-1)
    return halves.reshape(len(blocks), -1).view(mx.uint32)


def _gather(words: mx.array) -> mx.array:
    """Bring the low nibbles of each uint32's four bytes together in a uint16."""
    words = words & 0x0F0F0F0F
    words = (words | (words >> 4)) & 0x00FF00FF
    return (words | (words >> 8)).astype(mx.uint16)
