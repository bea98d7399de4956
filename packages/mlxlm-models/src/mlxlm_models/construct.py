"""A model as its config describes it, weights not yet read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.architecture import Architecture
from mlxlm_models.custom_code import build_custom
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture

Weights = dict[str, mx.array]


@dataclass(frozen=True)
class Blueprint:
    """`sanitize` brings a checkpoint's tensors under the model's names, `rename` a module path."""

    model: nn.Module
    sanitize: Callable[[Weights], Weights]
    rename: Callable[[str], str]


def construct(config: Mapping[str, Any], origin: Path, trust_remote_code: bool) -> Blueprint:
    """Build the architecture of `config` (its `model_file`, or by `model_type`).

    `origin` is the model directory or file. Raises ConfigError, UnknownArchitecture or
    RemoteCodeError.
    """
    if (model_file := config.get("model_file")) is not None:
        model = build_custom(origin, model_file, config, trust_remote_code)
        return Blueprint(model, getattr(model, "sanitize", _same), _same)
    family = _family(config, origin)
    model, settings = family.create(config)
    return Blueprint(model, lambda weights: family.sanitize(weights, settings), family.rename)


def check_architecture(config: Mapping[str, Any], origin: Path) -> None:
    """Raise ConfigError or UnknownArchitecture where `construct` would for the `model_type`."""
    if config.get("model_file") is None:
        _family(config, origin)


def _family(config: Mapping[str, Any], origin: Path) -> Architecture[Any]:
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise ConfigError(f"The config of {origin} has no model_type: add it, or fetch it again.")
    return get_architecture(model_type)


def _same(value: Any) -> Any:
    return value
