"""Read lazily loaded weights into memory a layer at a time."""

import re
from collections.abc import Iterator
from itertools import groupby

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.tree import parameters_of

_LAYER = re.compile(r"^(.*?\.\d+)(?:\.|$)")


def materialize(model: nn.Module) -> None:
    """Evaluate all parameters, layer by layer.

    Temporaries (a cast, a dequantized copy's source, experts before they are stacked)
    live for one layer only: the peak is the model plus one layer. Holds only as long as
    the caller keeps no other reference to the arrays the parameters are made from.
    """
    for arrays in _layers(model):
        mx.eval(arrays)


def _layers(model: nn.Module) -> Iterator[list[mx.array]]:
    for _, group in groupby(parameters_of(model).items(), key=lambda item: _layer(item[0])):
        yield [array for _, array in group]


def _layer(name: str) -> str:
    match = _LAYER.match(name)
    return match.group(1) if match else name
