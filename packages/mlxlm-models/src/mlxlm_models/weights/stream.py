"""Read lazily loaded weights into memory a layer at a time."""

import re
from collections.abc import Iterator
from itertools import groupby

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

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
    flat: list[tuple[str, mx.array]] = tree_flatten(model.parameters())  # type: ignore[assignment]
    for _, group in groupby(flat, key=lambda item: _layer(item[0])):
        yield [array for _, array in group]


def _layer(name: str) -> str:
    match = _LAYER.match(name)
    return match.group(1) if match else name
