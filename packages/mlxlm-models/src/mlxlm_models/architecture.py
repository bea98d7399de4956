"""What the registry hands out for a `model_type`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.plan import Plan, linear_layers, model_plan
from mlxlm_models.rules import COMMON_RULES, Rule, Weights, apply_rules, rename_path


class Config(Protocol):
    """What a family's config class offers."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the keys of `config.json`; ConfigError where they cannot be used."""
        ...


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Architecture(Generic[C]):
    """A family: how to read its config, build its model and map its weights.

    `rules` run in order on the tensors of a checkpoint (see `rules`).

    What a model is to those who divide, scale or adapt it follows from its layers unless
    `plan` (see `layers.plan`) or `adapters` (paths of linear layers) say otherwise. Its caches
    are those that its `make_cache` returns.

    `tool_parser` names how the family writes tool calls, `thinking` is what it opens and
    closes its reasoning with, for families where the chat template doesn't tell.
    """

    model_type: str
    config: type[C]
    build: Callable[[C], nn.Module]
    rules: tuple[Rule, ...] = COMMON_RULES
    plan: Callable[[nn.Module], Plan] = model_plan
    adapters: Callable[[nn.Module], list[str]] = linear_layers
    tool_parser: str | None = None
    thinking: tuple[str, str] | None = None

    def create(self, data: Mapping[str, Any]) -> tuple[nn.Module, C]:
        """Return the model that `config.json` describes, its weights not yet read, and its config.

        ConfigError where `data` cannot be used.
        """
        config = self.config.from_dict(data)
        return self.build(config), config

    def sanitize(self, weights: Mapping[str, mx.array], config: C) -> Weights:
        """Return the tensors under the model's names; unknown ones stay, for the loader to report.

        WeightsError where they contradict `config` or each other.
        """
        return apply_rules(self.rules, weights, config)

    def rename(self, path: str) -> str:
        """Return the model's name for a module path of the checkpoint, as in `quantization`."""
        return rename_path(self.rules, path)
