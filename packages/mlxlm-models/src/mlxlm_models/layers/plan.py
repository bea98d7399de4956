"""What the parts of a model are to those who divide, scale or adapt it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import mlx.nn as nn


@dataclass(frozen=True)
class Shard:
    """How a module is divided among the members of a tensor-parallel group.

    `outputs`: each has some rows (the last axis but one of a weight, the last of a bias).
    `inputs`: each has some columns, and the results are to be summed. `heads`: each has some
    entries of the first axis. Rows of several kinds, in `segments`, are divided kind by kind.
    """

    along: Literal["outputs", "inputs", "heads"]
    segments: tuple[int, ...] = ()


@dataclass(frozen=True)
class ScaleGroup:
    """Layers that read what `previous` puts out, feature by feature (AWQ).

    A scale moved from their inputs to `previous` changes nothing; `within` is the module
    whose output tells how well it did.
    """

    previous: str
    layers: tuple[str, ...]
    within: str


@dataclass(frozen=True)
class Plan:
    """Paths are relative to the module that the plan is of."""

    shards: dict[str, Shard] = field(default_factory=dict)
    scale_groups: tuple[ScaleGroup, ...] = ()
    summed: tuple[str, ...] = ()
    """Modules whose whole output is a member's part of a sum, such as a MoE's."""

    def under(self, prefix: str) -> "Plan":
        def path(name: str) -> str:
            return f"{prefix}.{name}" if name else prefix

        return Plan(
            {path(name): shard for name, shard in self.shards.items()},
            tuple(
                replace(
                    group,
                    previous=path(group.previous),
                    layers=tuple(path(name) for name in group.layers),
                    within=path(group.within),
                )
                for group in self.scale_groups
            ),
            tuple(path(name) for name in self.summed),
        )

    def __add__(self, other: "Plan") -> "Plan":
        return Plan(
            self.shards | other.shards,
            self.scale_groups + other.scale_groups,
            self.summed + other.summed,
        )


def model_plan(model: nn.Module) -> Plan:
    """Return the plan of all layers of `model`, by their paths in it.

    A layer whose spec has no plan is in none: it is kept whole by everyone.
    """
    total = Plan()
    for path, layer in _layers(model):
        plan = getattr(getattr(layer, "spec", None), "plan", None)
        if plan is not None:
            total += plan().under(path)
    return total


def linear_layers(model: nn.Module) -> list[str]:
    """Return the paths of what adapters attach to: every linear layer of every layer."""
    paths = []
    for prefix, layer in _layers(model):
        for path, module in layer.named_modules():
            weight = module.get("weight")
            if path and hasattr(module, "to_quantized") and weight is not None and weight.ndim >= 2:
                paths.append(f"{prefix}.{path}")
    return sorted(paths)


def _layers(model: Any) -> Iterator[tuple[str, Any]]:
    paths = {id(module): path for path, module in model.named_modules()}
    for layer in model.layers:
        yield paths[id(layer)], layer
