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
    """Cut each module matching the glob `source` into siblings `into`, along `axis`.

    `sizes(config)` gives the rows of each part; without it they are equal. `interleaved`:
    part i of n has every n-th row from i on. Packed weights split like plain ones: their
    rows are whole.
    """

    source: str
    into: tuple[str, ...]
    sizes: Callable[[Any], Sequence[int]] | None = None
    axis: int = 0
    interleaved: bool = False

    def __call__(self, weights: Weights, config: Any) -> Weights:
        result: Weights = {}
        for name, value in weights.items():
            module, _, tensor = name.rpartition(".")
            if not fnmatchcase(module, self.source):
                result[name] = value
                continue
            parent = module.rpartition(".")[0]
            for part, rows in zip(self.into, self._parts(name, value, config), strict=True):
                result[f"{parent}.{part}.{tensor}" if parent else f"{part}.{tensor}"] = rows
        return result

    def _parts(self, name: str, value: mx.array, config: Any) -> Sequence[mx.array]:
        count, rows = len(self.into), value.shape[self.axis]
        sizes = self.sizes(config) if self.sizes else [rows // count] * count
        if sum(sizes) != rows:
            raise WeightsError(
                f"{name!r} has {rows} rows where the config makes {sum(sizes)}: "
                f"config.json and the weights are not of the same model."
            )
        if self.interleaved:
            return [
                value[(slice(None),) * self.axis + (slice(i, None, count),)] for i in range(count)
            ]
        ends = [sum(sizes[: i + 1]) for i in range(count - 1)]
        return list(mx.split(value, ends, axis=self.axis))


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
    """Swap the last two axes of the tensors matching the glob `pattern`.

    For GPT-2's Conv1D, and for experts stored as (experts, inputs, outputs). A vector stays,
    and so does what has `last(config)` as its last axis alone: it is in order already.
    """

    pattern: str
    last: Callable[[Any], int] | None = None

    def __call__(self, weights: Weights, config: Any) -> Weights:
        return {
            name: value.swapaxes(-1, -2) if self._swaps(name, value, config) else value
            for name, value in weights.items()
        }

    def _swaps(self, name: str, value: mx.array, config: Any) -> bool:
        if not fnmatchcase(name, self.pattern) or value.ndim < 2:
            return False
        return self.last is None or value.shape[-2] == self.last(config)


@dataclass(frozen=True)
class Increase:
    """Add `by` to the tensors matching the glob `pattern`, where some tensor matches `sign`.

    For norms of 1 + w whose converted checkpoints store the sum: `sign` tells the public layout.
    """

    pattern: str
    sign: str
    by: float = 1.0

    def __call__(self, weights: Weights, config: Any) -> Weights:
        if not any(fnmatchcase(name, self.sign) for name in weights):
            return weights
        return {
            name: value + self.by if fnmatchcase(name, self.pattern) else value
            for name, value in weights.items()
        }


@dataclass(frozen=True)
class Reshape:
    """Give the tensors matching the glob `pattern` the shape that `shape(config)` returns."""

    pattern: str
    shape: Callable[[Any], Sequence[int]]

    def __call__(self, weights: Weights, config: Any) -> Weights:
        return {
            name: value.reshape(self.shape(config)) if fnmatchcase(name, self.pattern) else value
            for name, value in weights.items()
        }


def stack_experts(
    source: str,
    into: str,
    names: Sequence[str] = ("gate_proj", "up_proj", "down_proj"),
    new_names: Sequence[str] = ("gate_proj", "up_proj", "down_proj"),
) -> tuple[Stack, ...]:
    """Return the rules that gather `source.{}.name` of each expert into `into.new_name`."""
    return tuple(
        Stack(f"{source}.{{}}.{old}", f"{into}.{new}")
        for old, new in zip(names, new_names, strict=True)
    )


def split_experts(
    source: str, into: str, *, transposed: bool = False, interleaved: bool = False
) -> tuple[Rule, ...]:
    """Return the rules for experts that come stacked, gate and up as one.

    `source.gate_up_proj` and `source.down_proj` are tensors (experts, outputs, inputs), or
    with inputs and outputs swapped if `transposed`; their biases end in `_bias`. They become
    modules of `into`.
    """
    path, tensors = re.escape(source), r"(gate_up_proj|down_proj)"
    plain = (f"*{source}.gate_up_proj", f"*{source}.down_proj") if transposed else ()
    return (
        *(Transpose(pattern) for pattern in plain),
        Rename(rf"(.*\.|){path}\.{tensors}_bias$", rf"\1{into}.\2.bias"),
        Rename(rf"(.*\.|){path}\.{tensors}$", rf"\1{into}.\2.weight"),
        Split(f"*{into}.gate_up_proj", ("gate_proj", "up_proj"), axis=1, interleaved=interleaved),
    )


def drop_extra_layers(weights: Weights, config: Any) -> Weights:
    """Remove the layers after the last: they predict further tokens, and are not the model."""
    result: Weights = {}
    for name, value in weights.items():
        found = re.match(r"(?:.*\.)?layers\.(\d+)\.", name)
        if found is None or int(found[1]) < config.num_hidden_layers:
            result[name] = value
    return result


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
