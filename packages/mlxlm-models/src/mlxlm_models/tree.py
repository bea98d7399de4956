"""Typed views of a module tree."""

from typing import cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten


def parameters_of(module: nn.Module) -> dict[str, mx.array]:
    """Return every parameter under its path."""
    flat = tree_flatten(module.parameters())
    return dict(cast(list[tuple[str, mx.array]], flat))


def modules_of(module: nn.Module) -> dict[str, nn.Module]:
    """Return every module of the tree under its path, the root under ''."""
    return dict(module.named_modules())
