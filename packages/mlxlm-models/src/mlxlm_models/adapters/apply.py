"""Put an adapter directory's weights on a model."""

from collections.abc import Collection, Mapping
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from mlxlm_models.adapters.config import FILE, AdapterConfig, read_adapter_config
from mlxlm_models.adapters.wrap import wrap
from mlxlm_models.errors import SourceError, WeightsError
from mlxlm_models.tree import modules_of
from mlxlm_models.weights.assign import check_shapes, shapes_of
from mlxlm_models.weights.checkpoint import load_lazily
from mlxlm_models.weights.header import listing, read_shapes

WEIGHTS = "adapters.safetensors"
_TENSORS = {"lora": {"lora_a", "lora_b"}, "dora": {"lora_a", "lora_b", "m"}}


def apply_adapters(model: nn.Module, adapter_path: str | Path) -> None:
    """Wrap the adapted layers of `model` (lora, dora) or replace its parameters (full).

    The layers are those that `adapters.safetensors` has tensors for; they have to agree
    with `adapter_config.json`. Everything is checked before the model is changed; nothing
    is evaluated. Raises SourceError, ConfigError or WeightsError.
    """
    directory = Path(adapter_path).expanduser()
    if not directory.is_dir():
        raise SourceError(f"There is no adapter directory {str(adapter_path)!r}: check the path.")
    config = read_adapter_config(directory)
    file = directory / WEIGHTS
    if not file.is_file():
        raise SourceError(f"{directory} has no {WEIGHTS}: finish the training or copy it there.")
    shapes, weights = read_shapes(file), load_lazily(file)
    if config.fine_tune_type == "full":
        _check_full(model, weights, file)
    else:
        layers = _wrapped(model, _modules(shapes, config, file), config, file)
        expected = {
            f"{path}.{tensor}": layer[tensor].shape
            for path, layer in layers.items()
            for tensor in _TENSORS[config.fine_tune_type]
        }
        check_shapes(expected, weights, str(file))
        model.update_modules(tree_unflatten(list(layers.items())))
    model.update(tree_unflatten(list(weights.items())))


def _check_full(model: nn.Module, weights: Mapping[str, mx.array], file: Path) -> None:
    expected = shapes_of(model)
    if unknown := weights.keys() - expected.keys():
        raise WeightsError(
            f"{file} has {len(unknown)} tensors that the model does not: {listing(unknown)}. "
            "It was trained on another model."
        )
    check_shapes(expected, weights, str(file))


def _modules(
    shapes: Mapping[str, tuple[int, ...]], config: AdapterConfig, file: Path
) -> dict[str, int]:
    """Return the adapted modules of the file with the rank of each."""
    tensors = _TENSORS[config.fine_tune_type]
    found: dict[str, set[str]] = {}
    for name in shapes:
        path, _, tensor = name.rpartition(".")
        found.setdefault(path, set()).add(tensor)
    if not found:
        raise WeightsError(f"{file} holds no tensors.")
    odd = {f"{path}.{tensor}" for path, has in found.items() for tensor in has - tensors}
    if odd:
        raise WeightsError(
            f"{file} has {len(odd)} tensors that are none of {config.fine_tune_type}'s "
            f"({', '.join(sorted(tensors))}): {listing(odd)}. Correct fine_tune_type in {FILE}."
        )
    lacking = {f"{path}.{tensor}" for path, has in found.items() for tensor in tensors - has}
    if lacking:
        raise WeightsError(f"{file} lacks {len(lacking)} tensors: {listing(lacking)}.")
    _check_keys(list(found), config.keys, file)
    return {path: shapes[f"{path}.lora_a"][-1] for path in found}


def _check_keys(paths: Collection[str], keys: tuple[str, ...] | None, file: Path) -> None:
    if keys is None:
        return
    matched = {key for key in keys for path in paths if path == key or path.endswith(f".{key}")}
    if unused := set(keys) - matched:
        raise WeightsError(
            f"{file} has no tensors for {listing(unused)}, which {FILE} lists in "
            "lora_parameters.keys."
        )
    stray = {p for p in paths if not any(p == key or p.endswith(f".{key}") for key in keys)}
    if stray:
        raise WeightsError(
            f"{file} adapts {listing(stray)}, which {FILE} does not list in lora_parameters.keys."
        )


def _wrapped(
    model: nn.Module, modules: Mapping[str, int], config: AdapterConfig, file: Path
) -> dict[str, nn.Module]:
    known = modules_of(model)
    if unknown := modules.keys() - known.keys():
        raise WeightsError(
            f"{file} adapts {len(unknown)} layers that the model does not have: "
            f"{listing(unknown)}. It was trained on another model."
        )
    for path, rank in modules.items():
        if rank != config.rank:
            raise WeightsError(f"{file}: {path}.lora_a has rank {rank}, {FILE} says {config.rank}.")
    return {path: wrap(path, known[path], config) for path in modules}
