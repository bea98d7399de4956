import json
from pathlib import Path

import mlx.core as mx
import pytest
from mlxlm_models.errors import WeightsError
from mlxlm_models.weights import read_weights

ARRAYS = {"a": mx.arange(6).reshape(2, 3), "b": mx.ones((4,)), "c": mx.zeros((1,))}
INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Tensors a and b in the first of two shards, c in the second."""
    shards = {"model-00001-of-00002.safetensors": "ab", "model-00002-of-00002.safetensors": "c"}
    for file, names in shards.items():
        mx.save_safetensors(str(tmp_path / file), {name: ARRAYS[name] for name in names})
    weight_map = {name: file for file, names in shards.items() for name in names}
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return tmp_path


def check(weights: dict[str, mx.array]) -> None:
    assert weights.keys() == ARRAYS.keys()
    assert all(mx.array_equal(weights[name], ARRAYS[name]) for name in ARRAYS)


def test_shards_by_index_only(sharded: Path) -> None:
    mx.save_safetensors(str(sharded / "model-extra.safetensors"), {"d": mx.ones((1,))})
    check(read_weights(sharded))


def test_without_an_index_all_of_model_safetensors(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    mx.save_safetensors(str(sharded / "adapters.safetensors"), {"d": mx.ones((1,))})
    check(read_weights(sharded))


def test_absent_shard_is_named_with_the_index(sharded: Path) -> None:
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match="1 of 2 files.*model-00002-of-00002") as error:
        read_weights(sharded)
    assert INDEX in str(error.value)


def test_truncated_shard_is_named(sharded: Path) -> None:
    shard = sharded / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(WeightsError, match="model-00001-of-00002.safetensors is truncated"):
        read_weights(sharded)


def test_tensor_that_is_not_in_its_shard(sharded: Path) -> None:
    mx.save_safetensors(str(sharded / "model-00001-of-00002.safetensors"), {"a": ARRAYS["a"]})
    with pytest.raises(WeightsError, match=r"00001.*lacks 1 tensors.*\(b\)"):
        read_weights(sharded)


def test_tensor_in_two_files(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    mx.save_safetensors(str(sharded / "model-00003.safetensors"), {"a": ARRAYS["a"]})
    with pytest.raises(WeightsError, match="'a' is in .* and again in"):
        read_weights(sharded)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1, column 2"),
        ("{}", "no weight_map"),
        ('{"weight_map": {"a": "../a.safetensors"}}', "not a file beside it"),
    ],
)
def test_broken_index(text: str, message: str, sharded: Path) -> None:
    (sharded / INDEX).write_text(text)
    with pytest.raises(WeightsError, match=message):
        read_weights(sharded)


@pytest.mark.parametrize(
    ("file", "way_out"),
    [
        ("weights.npz", "convert it"),
        ("pytorch_model-00001-of-00002.bin", "convert it"),
        ("consolidated.00.pth", "convert it"),
        ("model.gguf", "give that file's path"),
    ],
)
def test_other_formats_are_named(file: str, way_out: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    with pytest.raises(WeightsError, match=f"{file} but no model.*{way_out}"):
        read_weights(tmp_path)


def test_no_weights_at_all(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"no model\*\.safetensors"):
        read_weights(tmp_path)
