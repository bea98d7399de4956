"""The safetensors files of a model directory."""

from pathlib import Path
from typing import cast

import mlx.core as mx

from mlxlm_models.errors import WeightsError
from mlxlm_models.json_file import read_json
from mlxlm_models.weights.header import listing, read_shapes

INDEX = "model.safetensors.index.json"
_OTHER_FORMATS = ("*.npz", "pytorch_model*.bin", "consolidated*.pth", "*.pt", "*.gguf")


def read_weights(directory: Path) -> dict[str, mx.array]:
    """Return every tensor by name, lazily: nothing is read but the headers.

    The index says which files belong to the model; without one, `model*.safetensors`.
    Every file is checked first. Raises WeightsError.
    """
    index = directory / INDEX
    files = _indexed(index) if index.exists() else dict.fromkeys(_found(directory), frozenset())
    origin: dict[str, Path] = {}
    for path, promised in files.items():
        shapes = read_shapes(path)
        if lacking := promised - shapes.keys():
            raise WeightsError(
                f"{path} lacks {len(lacking)} tensors that {index.name} places there "
                f"({listing(lacking)}). Download both again."
            )
        for name in shapes:
            if name in origin:
                raise WeightsError(f"Tensor {name!r} is in {origin[name]} and again in {path}.")
            origin[name] = path
    weights: dict[str, mx.array] = {}
    for path in files:
        weights.update(load_lazily(path))
    return weights


def load_lazily(path: Path) -> dict[str, mx.array]:
    return cast(dict[str, mx.array], mx.load(str(path), format="safetensors"))


def _indexed(index: Path) -> dict[Path, frozenset[str]]:
    """Return each shard with the tensors that the index places there."""
    weight_map = read_json(index, WeightsError).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise WeightsError(f"{index} has no weight_map: download it again.")
    shards: dict[Path, set[str]] = {}
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise WeightsError(f"{index} places tensor {name!r} in {file!r}: not a file beside it.")
        shards.setdefault(index.parent / file, set()).add(name)
    absent = [path.name for path in shards if not path.is_file()]
    if absent:
        raise WeightsError(
            f"{index} names {len(absent)} of {len(shards)} files that are not there "
            f"({listing(absent)}): finish the download, or copy them beside it."
        )
    return {path: frozenset(shards[path]) for path in sorted(shards)}


def _found(directory: Path) -> list[Path]:
    if files := sorted(directory.glob("model*.safetensors")):
        return files
    for pattern in _OTHER_FORMATS:
        for other in sorted(directory.glob(pattern)):
            way_out = (
                "give that file's path instead of the directory's"
                if other.suffix == ".gguf"
                else "convert it to safetensors first"
            )
            raise WeightsError(
                f"{directory} has {other.name} but no model*.safetensors: {way_out}."
            )
    raise WeightsError(f"{directory} has no model*.safetensors and no {INDEX}.")
