"""Safetensors files that appear whole or not at all, and that tell when they were changed.

MLX's own writer copies every tensor first; this one writes the memory as it lies. Reading
tensors is left to MLX, which does it when they are first used.
"""

import hashlib
import json
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import mlx.core as mx

from mlxlm_cache.errors import PromptFileError
from mlxlm_cache.transfer import write_runs
from mlxlm_cache.writing import regular_file, whole_file

DTYPES = {
    "BOOL": mx.bool_,
    "U8": mx.uint8,
    "I8": mx.int8,
    "U16": mx.uint16,
    "I16": mx.int16,
    "F16": mx.float16,
    "BF16": mx.bfloat16,
    "U32": mx.uint32,
    "I32": mx.int32,
    "F32": mx.float32,
    "U64": mx.uint64,
    "I64": mx.int64,
    "F64": mx.float64,
    "C64": mx.complex64,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

DIGEST = "0.mlxlm.digest"
"""The metadata key of the digest: among the user's keys, where mlx-lm accepts it."""

_UNKNOWN = "0" * 64
"""What stands for the digest until it is known."""

SAMPLE = 1024**2
"""Bytes of tensors that the digest covers: all of a small file, evenly spread pages of a
large one, so that opening it stays a matter of milliseconds."""

_PAGE = 4096

_RUN = 16 * 1024
"""A tensor with gaps is written as it lies if its runs have so many bytes at least."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor is: its bytes are [start, end) of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    facts: dict[str, str]
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Draft:
    """A file to be written, by any thread: it has the tensors' memory, not a copy of it."""

    head: bytes
    runs: list[memoryview]

    @property
    def nbytes(self) -> int:
        return len(self.head) + sum(run.nbytes for run in self.runs)

    def write(self, path: Path, *, direct: bool = False) -> None:
        """Write a whole file, on the disk when this returns; see `whole_file`, `write_runs`."""
        with whole_file(path) as file:
            write_runs(file, [memoryview(self.head), *self.runs], direct=direct)


def draft(arrays: Mapping[str, mx.array], facts: Mapping[str, str]) -> Draft:
    """Lay out a file. While there is a draft, writing to these arrays copies them."""
    largest_first = sorted(arrays.items(), key=lambda item: -item[1].itemsize)  # so all align
    table: dict[str, Any] = {"__metadata__": {DIGEST: _UNKNOWN, **facts}}
    end = 0
    for name, array in largest_first:
        start, end = end, end + array.nbytes
        dtype, shape = _NAMES[array.dtype], list(array.shape)
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    runs = list(_runs([array for _, array in largest_first if array.nbytes]))
    digest = _digest(_parsed(text, 0), _read(runs))
    text = text.replace(_UNKNOWN.encode(), digest.encode(), 1)
    return Draft(len(text).to_bytes(8, "little") + text, runs)


def read_header(path: Path, *, check: bool = True) -> Header:
    """Return what a file says it holds, once its size and, with `check`, its digest agree.

    Raises FileNotFoundError, NotAFile or PromptFileError.
    """
    with regular_file(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise PromptFileError(f"{path} is cut off or not a safetensors file")
        try:
            header = _parsed(file.read(length), 8 + length)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise PromptFileError(f"{path} is not a safetensors file") from error
        expected = max((tensor.end for tensor in header.tensors.values()), default=8 + length)
        if size < expected:
            raise PromptFileError(f"{path} is cut off: {size} bytes of {expected}")
        if size > expected:
            raise PromptFileError(f"{path} is damaged: {size} bytes where it has {expected}")
        if (
            check
            and DIGEST in header.facts
            and header.facts[DIGEST] != _digest(header, partial(_pread, file))
        ):
            raise PromptFileError(
                f"{path} was changed after it was written, so it cannot be trusted: make it again"
            )
    return header


def read(path: Path) -> tuple[dict[str, mx.array], dict[str, str]]:
    """Return the tensors of a file, each read when it is first evaluated, and the metadata.

    Raises what `read_header` does.
    """
    while True:
        header = read_header(path)
        try:
            loaded: Any = mx.load(str(path), format="safetensors", return_metadata=True)
        except RuntimeError:
            path.stat()  # raises FileNotFoundError where it has gone since
            raise
        arrays, facts = loaded
        digest = facts.pop(DIGEST, None)
        if digest == header.facts.get(DIGEST):  # else another file has taken its place since
            return arrays, facts


def _parsed(text: bytes, first: int) -> Header:
    """Read a header whose tensors begin at byte `first`. Raises ValueError and others."""
    table = json.loads(text)
    facts = table.pop("__metadata__", None) or {}
    if not all(isinstance(value, str) for value in facts.values()):
        raise ValueError("metadata that is not strings")
    return Header(facts, {name: _tensor(entry, first) for name, entry in table.items()})


def _tensor(entry: dict[str, Any], first: int) -> Tensor:
    start, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not 0 <= start <= end or end - start != math.prod(shape) * DTYPES[entry["dtype"]].size:
        raise ValueError("a tensor whose size is not that of its shape")
    return Tensor(entry["dtype"], shape, first + start, first + end)


def _runs(arrays: list[mx.array]) -> Iterator[memoryview]:
    """Yield the elements of arrays in order, as they lie unless they lie in short runs."""
    mx.eval(arrays)
    for array in arrays:
        view = memoryview(array)  # type: ignore[arg-type]
        if view.c_contiguous:
            yield view
        elif array.ndim > 1 and array[0].nbytes >= _RUN:
            yield from _runs(list(array))
        else:
            yield from _runs([mx.contiguous(array)])


def _read(runs: Sequence[memoryview]) -> Callable[[int, int], bytes]:
    """Return a function of start and length, in bytes of all `runs` together."""
    views = [run.cast("B") for run in runs]
    ends = list(accumulate(map(len, views)))

    def read(start: int, length: int) -> bytes:
        pieces = []
        while length > 0:
            i = bisect_right(ends, start)
            at = start - (ends[i] - len(views[i]))
            piece = bytes(views[i][at : at + length])
            pieces.append(piece)
            start, length = start + len(piece), length - len(piece)
        return b"".join(pieces)

    return read


def _pread(file: BinaryIO, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(length)


def _digest(header: Header, read: Callable[[int, int], bytes]) -> str:
    """Return the SHA-256 of the metadata, the table of tensors and a sample of their bytes.

    `read` returns bytes of a start and length.
    """
    facts = sorted((key, value) for key, value in header.facts.items() if key != DIGEST)
    tensors = sorted(header.tensors.items())
    table = [(name, tensor.dtype, tensor.shape) for name, tensor in tensors]
    digest = hashlib.sha256(json.dumps([facts, table]).encode())
    share = SAMPLE // max(1, len(tensors))
    for _, tensor in tensors:
        for start, length in _pages(tensor, share):
            digest.update(read(start, length))
    return digest.hexdigest()


def _pages(tensor: Tensor, share: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of all of a tensor, or of pages that make up about `share` bytes."""
    size = tensor.end - tensor.start
    if size <= max(share, _PAGE):
        yield tensor.start, size
        return
    count = max(2, share // _PAGE)
    for i in range(count):
        yield tensor.start + (size - _PAGE) * i // (count - 1), _PAGE
