from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlxlm_cache.errors import PromptFileError
from mlxlm_cache.tensorfile import (
    _PAGE,
    DTYPES,
    SAMPLE,
    Tensor,
    _pages,
    draft,
    read,
    read_header,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.safetensors"


def test_mlx_reads_what_is_written_in_every_dtype(file: Path) -> None:
    whole = {
        name: mx.arange(24).reshape(2, 3, 4).astype(DTYPES[name])
        for name in DTYPES
        if name != "F64"
    }
    odd = {
        "empty": mx.zeros((0,)),
        "scalar": mx.array(7),
        "gaps": mx.arange(240).reshape(4, 10, 6)[:, 2:5, ::2],
        "turned": mx.arange(12).reshape(3, 4).T,
        "repeated": mx.broadcast_to(mx.arange(3), (2, 3)),
        "backwards": mx.arange(9)[::-1],
        "long rows": mx.arange(2 * 40000).reshape(2, 40000)[:, :30000],
    }
    arrays = whole | odd
    draft(arrays, {"a": "1", "ü": '"\n'}).write(file)
    read_back, facts = read(file)
    assert facts == {"a": "1", "ü": '"\n'}
    assert set(read_back) == set(arrays)
    for name, array in arrays.items():
        assert (read_back[name].dtype, read_back[name].shape) == (array.dtype, array.shape)
        assert mx.array_equal(read_back[name], array), name


def test_a_change_in_the_sampled_part_of_a_large_file_is_found(file: Path) -> None:
    draft({"x": mx.zeros((2 * SAMPLE,), dtype=mx.uint8)}, {}).write(file)
    tensor = read_header(file).tensors["x"]
    whole = bytearray(file.read_bytes())
    for at in (tensor.start, tensor.end - 1):
        changed = whole.copy()
        changed[at] ^= 1
        file.write_bytes(changed)
        with pytest.raises(PromptFileError, match="was changed after it was written"):
            read(file)


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**5))
def test_pages_lie_inside_their_tensor(size: int, share: int, start: int) -> None:
    tensor = Tensor("U8", (size,), start, start + size)
    pages = list(_pages(tensor, share))
    assert pages[0][0] == start
    assert sum(pages[-1]) == tensor.end
    assert all(start <= at and at + length <= tensor.end for at, length in pages)
    assert sum(length for _, length in pages) <= max(share, 2 * _PAGE)


@pytest.mark.parametrize(
    "text",
    [
        '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}',
        '{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
        '{"x":{"dtype":"Q9","shape":[1],"data_offsets":[0,4]}}',
        '{"x":{"dtype":"F32"}}',
        '{"__metadata__":{"a":1}}',
        "[1]",
    ],
)
def test_a_header_that_contradicts_itself_is_an_error(file: Path, text: str) -> None:
    file.write_bytes(len(text).to_bytes(8, "little") + text.encode() + b"1234")
    with pytest.raises(PromptFileError, match="is not a safetensors file"):
        read(file)
