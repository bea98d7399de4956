import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import WeightsError
from mlxlm_models.weights.header import listing, read_shapes


def write(path: Path, header: Any, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_shapes_of_what_mlx_writes(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    arrays = {"a": mx.zeros((2, 3)), "b": mx.zeros((), mx.bfloat16), "c": mx.zeros((0, 4))}
    mx.save_safetensors(str(file), arrays, {"format": "mlx"})
    assert read_shapes(file) == {"a": (2, 3), "b": (), "c": (0, 4)}


@pytest.mark.parametrize("kept", [0, 4, 8, 20])
def test_file_cut_in_its_header(kept: int, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    mx.save_safetensors(str(file), {"a": mx.zeros((2, 3))})
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(WeightsError, match=r"a\.safetensors is truncated"):
        read_shapes(file)


def test_file_cut_in_its_tensors_names_one(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    mx.save_safetensors(str(file), {"a": mx.zeros((2, 3)), "b": mx.zeros((4,))})
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(WeightsError, match=r"a\.safetensors is truncated: tensor '[ab]'"):
        read_shapes(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "not a safetensors file"),
        ((4).to_bytes(8, "little") + b"{{{{", "not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "not a table"),
    ],
)
def test_other_files(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(content)
    with pytest.raises(WeightsError, match=message):
        read_shapes(file)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "takes 8 bytes"),
        ({"dtype": "F3", "shape": [2], "data_offsets": [0, 8]}, "dtype F3"),
        ({"dtype": "F32", "shape": [2]}, "broken"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}, "broken"),
        ("F32", "broken"),
    ],
)
def test_broken_entry_names_the_tensor(entry: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=f"'layer.weight'.*{message}"):
        read_shapes(write(tmp_path / "a.safetensors", {"layer.weight": entry}, bytes(8)))


def test_listing_counts_the_rest() -> None:
    assert listing("cab") == "a, b, c"
    assert listing("abcdefg") == "a, b, c, d, e and 2 more"
