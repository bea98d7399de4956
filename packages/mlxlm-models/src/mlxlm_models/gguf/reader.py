"""Header, metadata and tensor table of a GGUF file, over a memory map."""

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import Struct, calcsize, error, unpack_from
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxlm_models.errors import WeightsError
from mlxlm_models.gguf.types import (
    ALIGNMENT,
    ARRAY,
    MAGIC,
    SCALARS,
    STRING,
    TENSOR_TYPES,
    VERSIONS,
    TensorType,
)

_LENGTH = Struct("<Q")


@dataclass(frozen=True)
class Tensor:
    """`shape` is row-major as in MLX; `start` counts bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    start: int

    @cached_property
    def nbytes(self) -> int:
        return math.prod(self.shape) // self.type.weights * self.type.size


@dataclass(frozen=True)
class GGUFFile:
    """`metadata` holds Python numbers, strings and lists under the file's own keys."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    _map: mmap.mmap

    def bytes_of(self, tensor: Tensor) -> NDArray[np.uint8]:
        """Return a view of the tensor's bytes, one row of the tensor's last axis a row."""
        rows = math.prod(tensor.shape[:-1])
        flat = np.frombuffer(self._map, np.uint8, tensor.nbytes, tensor.start)
        return flat.reshape(rows, -1)


def open_gguf(path: Path) -> GGUFFile:
    """Read everything but the tensors' bytes.

    Raises WeightsError naming the file where it is no GGUF, truncated, or of a version
    that isn't read.
    """
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise WeightsError(f"{path} is not a GGUF file (it does not start with 'GGUF').")
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    cursor = _Cursor(view)
    try:
        cursor.at = 4
        _check_version(path, cursor.scalar("I"))
        tensor_count, pair_count = cursor.scalar("Q"), cursor.scalar("Q")
        metadata = {cursor.string(): cursor.value(cursor.scalar("I")) for _ in range(pair_count)}
        entries = [_entry(cursor) for _ in range(tensor_count)]
    except (error, _Truncated) as cause:
        raise WeightsError(
            f"{path} is truncated or broken in its header. Download or copy it again."
        ) from cause
    except _UnknownType as cause:
        raise WeightsError(f"{path}: {cause}. A newer mlxlm-models may read it.") from cause
    alignment = metadata.get("general.alignment", ALIGNMENT)
    start = -(-cursor.at // alignment) * alignment
    tensors = {
        name: Tensor(name, shape, kind, start + offset) for name, shape, kind, offset in entries
    }
    for tensor in tensors.values():
        _check_bounds(path, tensor, len(view))
    return GGUFFile(path, metadata, tensors, view)


class _Truncated(Exception):
    pass


class _UnknownType(Exception):
    pass


class _Cursor:
    """Reads values one after another."""

    def __init__(self, view: mmap.mmap) -> None:
        self.view = view
        self.size = len(view)
        self.at = 0

    def scalar(self, code: str) -> Any:
        (value,) = unpack_from(f"<{code}", self.view, self.at)
        self.at += calcsize(f"<{code}")
        # A float32 reads as the shortest decimal that it is: 1e-05, not 9.9999997e-06.
        return float(str(np.float32(value))) if code == "f" else value

    def string(self) -> str:
        return self.strings(1)[0]

    def strings(self, count: int) -> list[str]:
        # Vocabularies have hundreds of thousands: everything local, nothing called twice.
        view, at, size, length_at = self.view, self.at, self.size, _LENGTH.unpack_from
        if count > size // _LENGTH.size:
            raise _Truncated
        result = []
        for _ in range(count):
            start = at + 8
            at = start + length_at(view, at)[0]
            if at > size:
                raise _Truncated
            result.append(str(view[start:at], "utf-8", "surrogateescape"))
        self.at = at
        return result

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self.array(self.scalar("I"), self.scalar("Q"))
        return self.scalar(_code(kind))

    def array(self, kind: int, count: int) -> list[Any]:
        if kind == STRING:
            return self.strings(count)
        if kind == ARRAY:
            return [self.value(ARRAY) for _ in range(count)]
        code = _code(kind)
        nbytes = count * calcsize(f"<{code}")
        if self.at + nbytes > self.size:
            raise _Truncated
        values = np.frombuffer(self.view, np.dtype(f"<{code}"), count, self.at)
        self.at += nbytes
        return list(values.tolist())


def _code(kind: int) -> str:
    if kind not in SCALARS:
        raise _UnknownType(f"value type {kind} in its metadata is unknown")
    return SCALARS[kind]


def _check_version(path: Path, version: int) -> None:
    if version in VERSIONS:
        return
    if version & 0xFFFF == 0:
        raise WeightsError(f"{path} is a big-endian GGUF file: convert it to little-endian.")
    raise WeightsError(
        f"{path} is GGUF version {version}, read are {VERSIONS}: get a newer file of the model."
    )


def _entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], TensorType, int]:
    name = cursor.string()
    dims = tuple(cursor.scalar("Q") for _ in range(cursor.scalar("I")))
    kind, offset = cursor.scalar("I"), cursor.scalar("Q")
    if kind not in TENSOR_TYPES:
        raise _UnknownType(f"tensor {name!r} has the unknown type {kind}")
    return name, dims[::-1], TENSOR_TYPES[kind], offset


def _check_bounds(path: Path, tensor: Tensor, size: int) -> None:
    if not tensor.shape or tensor.shape[-1] % tensor.type.weights:
        raise WeightsError(
            f"{path}: tensor {tensor.name!r} of shape {tensor.shape} cannot be {tensor.type.name}."
        )
    end = tensor.start + tensor.nbytes
    if end > size:
        raise WeightsError(
            f"{path} is truncated: tensor {tensor.name!r} ends at byte {end:,}, "
            f"the file at {size:,}. Download or copy it again."
        )
