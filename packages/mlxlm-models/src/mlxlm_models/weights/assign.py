"""Put a checkpoint's tensors in the place of a model's parameters."""

from collections.abc import Mapping

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from mlxlm_models.errors import WeightsError
from mlxlm_models.tree import parameters_of
from mlxlm_models.weights.header import listing


def assign(model: nn.Module, weights: Mapping[str, mx.array], origin: str) -> None:
    """Replace all parameters, or raise WeightsError before replacing any.

    Evaluates nothing: neither the random start values nor the tensors. `origin`, a file
    or directory, is named in errors.
    """
    parameters = shapes_of(model)
    if missing := parameters.keys() - weights.keys():
        raise WeightsError(
            f"{origin} lacks {len(missing)} of the model's {len(parameters)} tensors: "
            f"{listing(missing)}. The checkpoint is incomplete, or its config.json is another's."
        )
    if extra := weights.keys() - parameters.keys():
        raise WeightsError(
            f"{origin} has {len(extra)} tensors that the model does not use: {listing(extra)}. "
            "Its config.json may be another's."
        )
    check_shapes(parameters, weights, origin)
    model.update(tree_unflatten(list(weights.items())))


def check_shapes(
    expected: Mapping[str, tuple[int, ...]], weights: Mapping[str, mx.array], origin: str
) -> None:
    wrong = {
        name: f"{name} is {array.shape}, expected {expected[name]}"
        for name, array in weights.items()
        if array.shape != expected[name]
    }
    if wrong:
        raise WeightsError(
            f"{origin} has {len(wrong)} tensors of the wrong shape: {listing(wrong.values())}."
        )


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in parameters_of(model).items()}
