"""A GGUF file as a Hugging Face checkpoint."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxlm_models.errors import WeightsError
from mlxlm_models.gguf.blocks import GROUP, PACKED_BITS
from mlxlm_models.gguf.config import config_of, family_of
from mlxlm_models.gguf.families import Family
from mlxlm_models.gguf.reader import GGUFFile, open_gguf
from mlxlm_models.gguf.tensors import can_pack, read_float, read_packed

_ROPE = ("rope_freqs", "rope_factors_long", "rope_factors_short")


@dataclass(frozen=True)
class GGUFCheckpoint:
    """`config` and `weights` in Hugging Face's keys and names, `metadata` in the file's.

    Packed weights have `.scales` and `.biases` beside them, described by `quantization`.
    """

    config: dict[str, Any]
    weights: dict[str, mx.array]
    quantization: dict[str, Any] | None
    metadata: Mapping[str, Any]


def read_gguf(path: str | Path) -> GGUFCheckpoint:
    """Read a model of a known architecture.

    Q8_0, Q4_0 and Q4_1 stay packed, exact in value; F32, F16 and BF16 stay as they are;
    other types become float32 through the `gguf` package. Repacking is lazy. Raises
    WeightsError, ConfigError, UnknownArchitecture.
    """
    return checkpoint_of(open_gguf(Path(path)))


def checkpoint_of(file: GGUFFile) -> GGUFCheckpoint:
    """Read the model of an open file, as `read_gguf` does."""
    _refuse_parts(file)
    family = family_of(file)
    rope = {
        name: read_float(file, file.tensors[f"{name}.weight"]).tolist()
        for name in _ROPE
        if f"{name}.weight" in file.tensors
    }
    config = config_of(file, rope)  # type: ignore[arg-type]
    reader = _Reader(file, family, config)
    weights: dict[str, mx.array] = {}
    for name in file.tensors:
        if name.removesuffix(".weight") not in _ROPE:
            weights.update(reader.read(name))
    quantization = reader.quantization()
    if quantization is not None:
        config["quantization"] = quantization
    return GGUFCheckpoint(config, weights, quantization, file.metadata)


class _Reader:
    """Converts tensors one by one and remembers which stayed packed."""

    def __init__(self, file: GGUFFile, family: Family, config: Mapping[str, Any]) -> None:
        self.file = file
        self.family = family
        self.bits: dict[str, int] = {}
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.permuted = (
            {"self_attn.q_proj": heads, "self_attn.k_proj": kv_heads} if family.permuted else {}
        )

    def read(self, gguf_name: str) -> dict[str, mx.array]:
        name = self.family.name(gguf_name)
        if name is None:
            raise WeightsError(
                f"{self.file.path}: tensor {gguf_name!r} is not one of a "
                f"{self.family.model_type} model: use the model's safetensors version."
            )
        tensor = self.file.tensors[gguf_name]
        module = name.removesuffix(".weight")
        if module != name and can_pack(tensor):
            self.bits[module] = PACKED_BITS[tensor.type.name]
            packed = read_packed(self.file, tensor)
            parts = {
                name: packed.weight,
                f"{module}.scales": packed.scales,
                f"{module}.biases": packed.biases,
            }
        else:
            parts = {name: read_float(self.file, tensor)}
        return {part: self._restore(part, array) for part, array in parts.items()}

    def quantization(self) -> dict[str, Any] | None:
        """Return the `quantization` settings, the commonest bits as default."""
        if not self.bits:
            return None
        default = Counter(self.bits.values()).most_common(1)[0][0]
        settings: dict[str, Any] = {"group_size": GROUP, "bits": default, "mode": "affine"}
        for module, bits in self.bits.items():
            if bits != default:
                settings[module] = {"group_size": GROUP, "bits": bits, "mode": "affine"}
        return settings

    def _restore(self, name: str, array: mx.array) -> mx.array:
        """Undo what the conversion to GGUF did to values and row order."""
        module = name.rpartition(".")[0]
        for suffix, heads in self.permuted.items():
            if module.endswith(suffix):
                return _unpermute(array, heads)
        if self.family.norm_offset and module.endswith("norm"):
            return array - self.family.norm_offset
        return array


def _unpermute(array: mx.array, heads: int) -> mx.array:
    """(rows, …) with RoPE pairs side by side → pairs half a head apart."""
    pairs = array.reshape(heads, -1, 2, *array.shape[1:])
    return pairs.swapaxes(1, 2).reshape(array.shape)


def _refuse_parts(file: GGUFFile) -> None:
    parts = file.metadata.get("split.count", 1)
    if parts > 1:
        raise WeightsError(
            f"{file.path} is one of {parts} parts: merge them with llama.cpp's gguf-split first."
        )
    if not file.tensors:
        raise WeightsError(f"{file.path} has no tensors: it is a vocabulary only.")
