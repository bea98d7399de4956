"""Safetensors headers, read without touching the tensors.

Format: https://huggingface.co/docs/safetensors/index#format
"""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlxlm_models.errors import WeightsError

_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
}
_MAX_HEADER = 100_000_000
"""Bytes, the format's own bound."""

_LFS = b"version https://git-lfs"


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor, having checked that the file holds all of them.

    Raises WeightsError naming the file, and the tensor where one is to blame.
    """
    entries, start = _read_header(path)
    size = path.stat().st_size
    shapes = {}
    for name, entry in entries.items():
        shape, end = _check_entry(path, name, entry)
        if start + end > size:
            raise WeightsError(
                f"{path} is truncated: tensor {name!r} ends at byte {start + end:,}, "
                f"the file at {size:,}. Download or copy it again."
            )
        shapes[name] = shape
    return shapes


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header without its metadata, and where the tensors' bytes start."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        if prefix + file.read(len(_LFS) - 8) == _LFS:
            raise WeightsError(f"{path} is a Git LFS pointer, not weights: run `git lfs pull`.")
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or 8 + length > size:
            how = "is truncated" if length <= _MAX_HEADER else "is not a safetensors file"
            raise WeightsError(
                f"{path} {how}: its header does not fit its {size:,} bytes. "
                "Download or copy it again."
            )
        file.seek(8)
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise WeightsError(
            f"{path} is not a safetensors file: its header is not JSON. Download it again."
        ) from error
    if not isinstance(header, dict):
        raise WeightsError(f"{path} is not a safetensors file: its header is not a table.")
    header.pop("__metadata__", None)
    return header, 8 + length


def _check_entry(path: Path, name: str, entry: Any) -> tuple[tuple[int, ...], int]:
    """Return a tensor's shape and end, having checked that its bytes fit its shape."""
    match entry:
        case {
            "dtype": str(dtype),
            "shape": list(shape),
            "data_offsets": [int(start), int(end)],
        } if start >= 0:
            pass
        case _:
            raise WeightsError(f"{path}: tensor {name!r} has a broken entry in the header.")
    if dtype not in _BITS:
        raise WeightsError(
            f"{path}: tensor {name!r} has dtype {dtype}, which is not read here "
            f"(known: {', '.join(_BITS)}): convert the checkpoint."
        )
    expected = math.prod(shape) * _BITS[dtype] // 8
    if end - start != expected:
        raise WeightsError(
            f"{path}: tensor {name!r} of shape {tuple(shape)} and dtype {dtype} takes "
            f"{expected:,} bytes, the header gives it {end - start:,}. Download it again."
        )
    return tuple(shape), end


def listing(names: Iterable[str], limit: int = 5) -> str:
    """Return the first few names and how many more there are."""
    ordered = sorted(names)
    text = ", ".join(ordered[:limit])
    more = len(ordered) - limit
    return f"{text} and {more} more" if more > 0 else text
