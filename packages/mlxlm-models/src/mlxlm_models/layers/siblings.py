"""Linear layers that read the same input, computed as one where there are few rows.

A GPU takes several microseconds to get a product going, however small it is. The layers
keep their paths and their parameters, which become parts of common arrays.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.module import Module
from mlxlm_models.tree import modules_of

GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names of layers that get the same input wherever they stand side by side."""

MAX_ROWS = 32

_ARRAYS = ("weight", "scales", "biases", "bias")

_NOTHING: tuple[None, list[mx.array]] = (None, [])


class Joinable(Module):
    """A linear layer that may be one of several."""

    _siblings: "Siblings | None" = None
    _place = 0

    def alike(self) -> "Joinable":
        """Return another layer of the same kind, whose arrays are this one's."""
        raise NotImplementedError

    def joined(self, x: mx.array) -> mx.array | None:
        """Return this layer's part of what the siblings make of x, None if it is alone."""
        siblings = self._siblings
        if siblings is None:
            return None
        seen, parts = siblings.latest
        if seen is not x:
            if self.training or not siblings.fit(x):
                return None
            parts = siblings.compute(x)
        if self._place == siblings.last:
            siblings.latest = _NOTHING
        return parts[self._place]


class Siblings:
    """The common product of layers; the first that is called computes it for all."""

    def __init__(self, whole: nn.Module, layers: Sequence[nn.Module]) -> None:
        self.last = len(layers) - 1
        self.latest: tuple[mx.array | None, list[mx.array]] = _NOTHING
        """Input and outputs in one object: threads never see one without the other."""
        self._whole: Any = whole
        self._layers = tuple(layers)
        self._weights = tuple(layer["weight"] for layer in layers)
        sizes = [weight.shape[0] for weight in self._weights]
        self._ends = [sum(sizes[: i + 1]) for i in range(self.last)]

    def fit(self, x: mx.array) -> bool:
        """Tell whether x has few rows, and no layer has got another weight since the joining."""
        return x.size <= MAX_ROWS * x.shape[-1] and all(
            layer["weight"] is weight
            for layer, weight in zip(self._layers, self._weights, strict=True)
        )

    def compute(self, x: mx.array) -> list[mx.array]:
        parts = list(mx.split(self._whole(x), self._ends, axis=-1))
        self.latest = (x, parts)
        return parts


def join_siblings(model: nn.Module) -> None:
    """Join the layers of `GROUPS` that are of one kind. Lazy; arrays move, none is added."""
    modules = modules_of(model)
    for path in modules:
        for names in GROUPS:
            layers = [modules.get(f"{path}.{name}" if path else name) for name in names]
            found = [layer for layer in layers if isinstance(layer, Joinable)]
            if len(found) == len(names) and len({_kind(layer) for layer in found}) == 1:
                _join(found)


def _kind(layer: nn.Module) -> tuple[Any, ...]:
    """Return what has to be the same for layers to be computed as one."""
    quantization = [getattr(layer, name, None) for name in ("group_size", "bits", "mode")]
    arrays = [
        (name, layer[name].dtype, *layer[name].shape[1:]) for name in _ARRAYS if name in layer
    ]
    return type(layer), *quantization, *arrays


def _join(layers: Sequence[Joinable]) -> None:
    whole = layers[0].alike()
    sizes = [layer["weight"].shape[0] for layer in layers]
    bounds = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    for name in _ARRAYS:
        if name in layers[0]:
            whole[name] = mx.concatenate([layer[name] for layer in layers], axis=0)
            parts = mx.split(whole[name], bounds, axis=0)
            for layer, part in zip(layers, parts, strict=True):
                layer[name] = part
    whole.eval()  # it is no part of the model, whose mode it would not follow
    siblings = Siblings(whole, layers)
    for place, layer in enumerate(layers):
        layer._siblings, layer._place = siblings, place
