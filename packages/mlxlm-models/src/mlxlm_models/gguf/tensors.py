"""From a GGUF tensor to MLX arrays."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxlm_models.errors import WeightsError
from mlxlm_models.gguf.blocks import PACKED_BITS, Packed, repack
from mlxlm_models.gguf.reader import GGUFFile, Tensor

_PLAIN = {"F32": np.float32, "F16": np.float16, "F64": np.float64}


def read_packed(file: GGUFFile, tensor: Tensor) -> Packed:
    return repack(tensor.type.name, file.bytes_of(tensor))


def can_pack(tensor: Tensor) -> bool:
    return tensor.type.name in PACKED_BITS and len(tensor.shape) == 2


def read_float(file: GGUFFile, tensor: Tensor) -> mx.array:
    """Return F32, F16 and BF16 as they are, everything else dequantized to float32."""
    data = file.bytes_of(tensor)
    if tensor.type.name == "BF16":
        return mx.array(data.view(np.uint16)).view(mx.bfloat16).reshape(tensor.shape)
    if tensor.type.name in _PLAIN:
        return mx.array(data.view(_PLAIN[tensor.type.name])).reshape(tensor.shape)
    return mx.array(_dequantize(file.path, tensor, data).reshape(tensor.shape))


def _dequantize(path: Path, tensor: Tensor, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    dequantize, kinds = _library(path, tensor)
    try:
        return dequantize(data, kinds[tensor.type.name])
    except NotImplementedError as error:
        raise WeightsError(
            f"{path}: tensor {tensor.name!r} is {tensor.type.name}, which cannot be dequantized: "
            "get the model in another quantization."
        ) from error


def _library(
    path: Path, tensor: Tensor
) -> tuple[Callable[..., NDArray[np.float32]], dict[str, object]]:
    try:
        from gguf import GGMLQuantizationType, dequantize
    except ImportError as error:
        raise WeightsError(
            f"{path}: tensor {tensor.name!r} is {tensor.type.name}, which the `gguf` package "
            "reads: pip install 'mlxlm-models[gguf]'."
        ) from error
    return dequantize, dict(GGMLQuantizationType.__members__)
