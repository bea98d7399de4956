"""The table of architectures, as Markdown: `python -m mlxlm_models.table GOLDENS`.

GOLDENS is the folder of golden logits, `tests/goldens`: their configs are what the caches
and the tensor-parallel plan of each type are read from.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxlm_models.registry import family, get_architecture, list_architectures

HEADER = ("type", "also", "family file", "caches", "tensor-parallel", "goldens")


def golden_configs(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the configs of the goldens in `folder`, by `model_type`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        loaded: Any = mx.load(str(path), return_metadata=True)
        config = json.loads(loaded[1]["config"])
        found.setdefault(config["model_type"], []).append(config)
    return found


def rows(goldens: Mapping[str, list[dict[str, Any]]]) -> Iterator[tuple[str, ...]]:
    """Yield a row per architecture; types that are others under a second name go with them."""
    aliases: dict[str, list[str]] = {}
    for name in list_architectures():
        aliases.setdefault(get_architecture(name).model_type, []).append(name)
    for name, names in sorted(aliases.items()):
        arch = get_architecture(name)
        configs = [config for one in names for config in goldens.get(one, [])]
        caches: set[str] = set()
        divided = bool(configs)
        for config in configs:
            model: Any = arch.create(config)[0]
            caches |= {type(cache).__name__ for cache in model.make_cache()}
            divided = divided and bool(arch.plan(model).shards)
        yield (
            f"`{name}`",
            ", ".join(f"`{other}`" for other in names if other != name),
            f"`{family(name).rpartition('.')[2]}.py`",
            ", ".join(sorted(caches)),
            "yes" if divided else "no",
            str(len(configs)),
        )


def markdown(goldens: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return the whole table."""
    lines = [HEADER, ("---",) * len(HEADER), *rows(goldens)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mlxlm_models.table", description=__doc__)
    parser.add_argument("goldens", type=Path, help="the folder of golden logits")
    folder: Path = parser.parse_args().goldens
    goldens = golden_configs(folder)
    if not goldens:
        parser.error(f"{folder} has no goldens: give packages/mlxlm-models/tests/goldens")
    sys.stdout.write(markdown(goldens))


if __name__ == "__main__":
    main()
