"""Packing in a few bits, along the head dimension (MLX's affine mode)."""

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.errors import CacheNotQuantizable

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)


class Affine:
    """For caches that store triples: packed uint32, scales, biases."""

    group_size: int
    bits: int

    def pack(self, array: mx.array) -> Packed:
        """Quantize (B, n_kv, L, D). Raises CacheNotQuantizable where D does not divide."""
        if array.shape[-1] % self.group_size:
            raise CacheNotQuantizable(
                f"a head dimension of {array.shape[-1]} cannot be quantized in groups of "
                f"{self.group_size}: choose a group size that divides it, of {GROUP_SIZES}"
            )
        data, scales, biases = mx.quantize(array, group_size=self.group_size, bits=self.bits)
        return data, scales, biases

    def _set(self, group_size: int, bits: int) -> None:
        check_settings(group_size, bits)
        self.group_size = group_size
        self.bits = bits


def check_settings(group_size: int, bits: int) -> None:
    """Raise ValueError where MLX has no such quantization."""
    if bits not in BITS:
        raise ValueError(f"bits must be one of {BITS}, not {bits}")
    if group_size not in GROUP_SIZES:
        raise ValueError(f"group_size must be one of {GROUP_SIZES}, not {group_size}")
