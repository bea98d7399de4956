"""How a prompt-cache file lays out a stack of caches: mlx-lm's layout.

A safetensors file. Tensors are the leaves of the layers' states, named by their path
("1.0" is layer 1, item 0). The metadata is a flattened list:

    0  the user's metadata, "0.<key>"
    1  class names, "1.<layer>"
    2  "2.0" is empty; then a pair for each leaf that is not a plain tensor: its path, and
       none (stored as an empty tensor), scalar (no dimensions) or string (code points)

Numbers and strings at the end of a layer's state are its `meta_state`; classes of mlx-lm
that leave no room for it there have it in the user's metadata, as "mlxlm.meta.<layer>".
This is what mlx-lm 0.32 writes. Before that, the list was: meta states, user's metadata,
class names; such files are read too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten

# Where meta_state's items stood in the older layout, as (offset, keep, max_size, next).
_OLD_ORDER = {"RotatingKVCache": (2, 0, 1, 3)}

META_APART = ("ArraysCache", "CacheList")
_APART = "mlxlm.meta."


@dataclass(frozen=True)
class Layer:
    """One cache, as a file sees it."""

    class_name: str
    state: Any
    meta_state: tuple[str, ...]


def flatten(
    layers: Sequence[Layer], metadata: Mapping[str, str]
) -> tuple[dict[str, mx.array], dict[str, str]]:
    """Return a file's tensors and metadata."""
    arrays: dict[str, mx.array] = {}
    facts = {f"0.{key}": value for key, value in metadata.items()}
    facts |= {f"1.{i}": layer.class_name for i, layer in enumerate(layers)}
    facts["2.0"] = ""
    trees = []
    for i, layer in enumerate(layers):
        apart = layer.class_name in META_APART
        trees.append(combined(layer.state, () if apart else layer.meta_state))
        if apart:
            facts[f"0.{_APART}{i}"] = json.dumps(layer.meta_state)
    leaves: Any = tree_flatten(trees)
    special = 0
    for path, leaf in leaves:
        arrays[path], kind = _tensor(leaf)
        if kind:
            special += 1
            facts |= {f"2.{special}.0": path, f"2.{special}.1": kind}
    return arrays, facts


def unflatten(
    arrays: Mapping[str, mx.array], facts: Mapping[str, str]
) -> tuple[list[Layer], dict[str, str]]:
    """Return the layers and the user's metadata. Raises KeyError or ValueError for nonsense."""
    old = facts.get("2.0") != ""
    at_metadata, at_names = ("1", "2") if old else ("0", "1")
    named = _section(facts, at_names)
    if not named:
        raise ValueError("it names no cache class")
    names = [named[str(i)] for i in range(len(named))]
    if old:
        states, metas = _trees(arrays), _trees(_section(facts, "0"))
        parts = [
            (state, _old_meta(name, meta))
            for name, state, meta in zip(names, states, metas, strict=True)
        ]
    else:
        kinds = dict(_kinds(facts))
        trees = _trees({path: _value(array, kinds.get(path)) for path, array in arrays.items()})
        parts = [split(tree) for tree in trees]
    metadata = _section(facts, at_metadata)
    apart = [metadata.pop(f"{_APART}{i}", None) for i in range(len(names))]
    layers = [
        Layer(name, state, meta if other is None else tuple(json.loads(other)))
        for name, (state, meta), other in zip(names, parts, apart, strict=True)
    ]
    return layers, metadata


def combined(state: Any, meta_state: tuple[str, ...]) -> list[Any]:
    """Return a state with the meta_state at its end; `split` parts them."""
    return [*state, *map(_leaf, meta_state)]


def _leaf(item: str) -> int | str:
    """Return a number or truth value where that loses nothing ("007" stays as it is)."""
    if item in ("True", "False"):
        return item == "True"
    number = int(item) if item.removeprefix("-").isdecimal() else None
    return item if number is None or str(number) != item else number


def _tensor(leaf: Any) -> tuple[mx.array, str | None]:
    match leaf:
        case mx.array():
            return leaf, None
        case None:
            return mx.zeros((0,)), "none"
        case str():
            return mx.array([ord(c) for c in leaf], dtype=mx.int32), "string"
        case bool():
            return mx.array(leaf), "scalar"
        case int():
            return mx.array(leaf, dtype=mx.int32 if abs(leaf) < 2**31 else mx.int64), "scalar"
    raise TypeError(f"a state may hold arrays and None, not {type(leaf).__name__}")


def _value(array: mx.array, kind: str | None) -> mx.array | str | None:
    match kind:
        case None:
            return array
        case "none":
            return None
        case "scalar":
            return str(array.item())
        case "string":
            return "".join(map(chr, array.tolist()))  # type: ignore[arg-type]
    raise ValueError(f"it holds a leaf of unknown kind {kind!r}")


def split(tree: Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    """Part a layer into its state and the numbers and strings at its end."""
    end = len(tree)
    while end and isinstance(tree[end - 1], (str, int)):
        end -= 1
    return list(tree[:end]), tuple(map(str, tree[end:]))


def _section(facts: Mapping[str, str], number: str) -> dict[str, str]:
    prefix = f"{number}."
    return {k.removeprefix(prefix): v for k, v in facts.items() if k.startswith(prefix)}


def _kinds(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, path in facts.items():
        match key.split("."):
            case ["2", _, "0"]:
                yield path, facts[f"{key.removesuffix('.0')}.1"]


def _trees(leaves: Mapping[str, Any]) -> list[Any]:
    """Return each layer's tree, of lists and dicts."""
    tree = tree_unflatten(list(leaves.items()))
    if not isinstance(tree, list):
        raise ValueError("its tensors are not numbered by layer")
    return tree


def _old_meta(name: str, meta: Any) -> tuple[str, ...]:
    items = tuple(meta) if isinstance(meta, list) else ()  # "" stood for an empty one
    return tuple(items[i] for i in _OLD_ORDER[name]) if name in _OLD_ORDER else items
