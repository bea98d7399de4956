"""Declared steps from the tensors of a public checkpoint to those a model has.

A rule maps names to arrays and never evaluates them. Whatever no rule touches passes
through: the loader reports what the model then doesn't know.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

import mlx.core as mx

from mlxlm_models.errors import WeightsError

Weights = dict[str, mx.array]


class Rule(Protocol):
    """One step; `config` is the family's config, for steps that depend on it."""

    def __call__(self, weights: Weights, config: Any) -> Weights: ...


def apply_rules(rules: Sequence[Rule], weights: Mapping[str, mx.array], config: Any) -> Weights:
    """Apply `rules` in order; the given mapping stays as it is."""
    result = dict(weights)
    for rule in rules:
        result = rule(result, config)
    return result


@dataclass(frozen=True)
class Drop:
    """Remove every tensor whose whole name matches one of the glob `patterns`."""

    patterns: tuple[str, ...]

    def __init__(self, *patterns: str) -> None:
        object.__setattr__(self, "patterns", patterns)

    def __call__(self, weights: Weights, config: Any) -> Weights:
        return {name: value for name, value in weights.items() if not self.matches(name)}

    def matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


@dataclass(frozen=True)
class DropWhen:
    """Apply `drop` only where `condition(config)` holds."""

    condition: Callable[[Any], bool]
    drop: Drop

    def __call__(self, weights: Weights, config: Any) -> Weights:
        return self.drop(weights, config) if self.condition(config) else weights


@dataclass(frozen=True)
class Rename:
    """Replace the regular expression `pattern`, found at the start of a name.

    Works on module paths too, so that per-layer settings follow their module.
    """

    pattern: str
    replacement: str

    def __call__(self, weights: Weights, config: Any) -> Weights:
        renamed: Weights = {}
        for name, value in weights.items():
            new = self.rename(name)
            if new in renamed:
                raise WeightsError(
                    f"Two tensors of the checkpoint are both {new!r} (one is called {name!r}): "
                    f"remove one of them."
                )
            renamed[new] = value
        return renamed

    def rename(self, name: str) -> str:
        found = re.match(self.pattern, name)
        return found.expand(self.replacement) + name[found.end() :] if found else name


@dataclass(frozen=True)
class Split:
    """Cut the rows of each module matching the glob `source` into siblings `into`.

    `sizes(config)` gives the rows of each part. Packed weights split like plain ones:
    their rows are whole.
    """

    source: str
    into: tuple[str, ...]
    sizes: Callable[[Any], Sequence[int]]

    def __call__(self, weights: Weights, config: Any) -> Weights:
        result: Weights = {}
        for name, value in weights.items():
            module, _, tensor = name.rpartition(".")
            if not fnmatchcase(module, self.source):
                result[name] = value
                continue
            sizes = self.sizes(config)
            if sum(sizes) != value.shape[0]:
                raise WeightsError(
                    f"{name!r} has {value.shape[0]} rows where the config makes {sum(sizes)}: "
                    f"config.json and the weights are not of the same model."
                )
            ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
            parent = module.rpartition(".")[0]
            for part, rows in zip(self.into, mx.split(value, ends), strict=True):
                result[f"{parent}.{part}.{tensor}" if parent else f"{part}.{tensor}"] = rows
        return result


@dataclass(frozen=True)
class Stack:
    """Gather per-expert modules into one with a leading expert axis.

    `source` is a module path in which `{}` stands for the expert's number, relative to
    any prefix, as in `mlp.experts.{}.up_proj`; `into` replaces it. All tensors of the
    module (weight, bias, scales, biases) are stacked alike.
    """

    source: str
    into: str

    def __call__(self, weights: Weights, config: Any) -> Weights:
        before, _, after = self.source.partition("{}")
        pattern = re.compile(rf"(.*\.|){re.escape(before)}(\d+){re.escape(after)}\.(\w+)")
        result: Weights = {}
        experts: dict[str, dict[int, mx.array]] = {}
        for name, value in weights.items():
            if found := pattern.fullmatch(name):
                prefix, number, tensor = found.groups()
                experts.setdefault(f"{prefix}{self.into}.{tensor}", {})[int(number)] = value
            else:
                result[name] = value
        for name, parts in experts.items():
            if missing := set(range(max(parts) + 1)) - parts.keys():
                raise WeightsError(
                    f"{name!r} lacks the experts {sorted(missing)}: "
                    f"a shard of the checkpoint is missing; fetch it again."
                )
            result[name] = mx.stack([parts[i] for i in range(len(parts))])
        return result


@dataclass(frozen=True)
class Transpose:
    """Swap the two axes of the tensors matching the glob `pattern` (GPT-2's Conv1D)."""

    pattern: str

    def __call__(self, weights: Weights, config: Any) -> Weights:
        return {
            name: value.T if fnmatchcase(name, self.pattern) and value.ndim == 2 else value
            for name, value in weights.items()
        }


def rename_path(rules: Sequence[Rule], path: str) -> str:
    """Return what the `Rename`s among `rules` make of a module path or tensor name."""
    for rule in rules:
        if isinstance(rule, Rename):
            path = rule.rename(path)
    return path


DROP_ROTARY_TABLES = Drop(
    "*rotary_emb.inv_freq", "*rotary_emb.cos_cached", "*rotary_emb.sin_cached"
)
"""Tables that older checkpoints store and every implementation computes."""

DROP_TIED_HEAD = DropWhen(lambda config: bool(config.tie_word_embeddings), Drop("*lm_head.*"))
"""A tied model has no head of its own; some checkpoints store a copy all the same."""

COMMON_RULES: tuple[Rule, ...] = (DROP_ROTARY_TABLES, DROP_TIED_HEAD)
"""What every decoder wants."""
