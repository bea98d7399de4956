"""Keys and values in a few bits: less memory, at a small cost in speed and precision."""

from typing import Self

import mlx.core as mx

from mlxlm_cache.base import Cache, Packed, number_of_tokens
from mlxlm_cache.blocks import allocated, grown, rounded_up
from mlxlm_cache.errors import CacheNotQuantizable
from mlxlm_cache.registry import register_cache

State = tuple[Packed, Packed] | tuple[None, None]

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)


@register_cache("QuantizedKVCache")
class QuantizedKVCache(Cache):
    """Every token's keys and values, quantized along the head dimension (MLX's affine mode).

    Keys and values are triples: packed uint32, scales, biases.
    """

    def __init__(self, group_size: int = 64, bits: int = 8) -> None:
        check_settings(group_size, bits)
        self.keys: Packed | None = None
        self.values: Packed | None = None
        self.offset = 0
        self.group_size = group_size
        self.bits = bits

    def pack(self, array: mx.array) -> Packed:
        """Quantize (B, n_kv, L, D). Raises CacheNotQuantizable where D does not divide."""
        if array.shape[-1] % self.group_size:
            raise CacheNotQuantizable(
                f"a head dimension of {array.shape[-1]} cannot be quantized in groups of "
                f"{self.group_size}: choose a group size that divides it, of {GROUP_SIZES}"
            )
        return _triple(mx.quantize(array, group_size=self.group_size, bits=self.bits))

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Packed, Packed]:
        start = self.offset
        end = start + keys.shape[2]
        new_keys, new_values = self.pack(keys), self.pack(values)
        all_keys, all_values = self.keys, self.values
        if all_keys is None or all_values is None or end > all_keys[0].shape[2]:
            capacity = rounded_up(end)
            self.keys = all_keys = _grown(all_keys, new_keys, start, capacity)
            self.values = all_values = _grown(all_values, new_values, start, capacity)
        for buffers, parts in ((all_keys, new_keys), (all_values, new_values)):
            for buffer, part in zip(buffers, parts, strict=True):
                buffer[:, :, start:end] = part
        self.offset = end
        return _first(all_keys, end), _first(all_values, end)

    @property
    def state(self) -> State:
        if self.keys is None or self.values is None or self.offset == 0:
            return None, None
        return _first(self.keys, self.offset), _first(self.values, self.offset)

    @state.setter
    def state(self, value: State) -> None:
        keys, values = value
        self.keys = None if keys is None else _triple(keys)
        self.values = None if values is None else _triple(values)
        self.offset = 0 if self.keys is None else self.keys[0].shape[2]

    @property
    def meta_state(self) -> tuple[str, ...]:
        return str(self.offset), str(self.group_size), str(self.bits)

    @classmethod
    def from_state(cls, state: State, meta_state: tuple[str, ...] = ()) -> Self:
        """Rebuild from packed keys and values and (offset, group_size, bits)."""
        offset, group_size, bits = map(int, meta_state)
        cache = cls(group_size=group_size, bits=bits)
        cache.state = state
        if not 0 <= offset <= cache.offset:
            raise ValueError(f"offset {offset}, but keys of {cache.offset} tokens")
        cache.offset = offset
        return cache

    def size(self) -> int:
        return self.offset

    @property
    def nbytes(self) -> int:
        return allocated(self.keys, self.values)

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        n = min(self.offset, number_of_tokens(n))
        self.offset -= n
        return n


def check_settings(group_size: int, bits: int) -> None:
    """Raise ValueError where MLX has no such quantization."""
    if bits not in BITS:
        raise ValueError(f"bits must be one of {BITS}, not {bits}")
    if group_size not in GROUP_SIZES:
        raise ValueError(f"group_size must be one of {GROUP_SIZES}, not {group_size}")


def _first(packed: Packed, n: int) -> Packed:
    data, scales, biases = packed
    return data[:, :, :n], scales[:, :, :n], biases[:, :, :n]


def _grown(buffers: Packed | None, like: Packed, used: int, capacity: int) -> Packed:
    olds = buffers or (None, None, None)
    return _triple([grown(old, new, used, capacity) for old, new in zip(olds, like, strict=True)])


def _triple(parts: list[mx.array] | Packed) -> Packed:
    data, scales, biases = parts
    return data, scales, biases
