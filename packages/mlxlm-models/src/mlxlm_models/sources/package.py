"""The one model inside an installed Python package."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from mlxlm_models.errors import SourceError
from mlxlm_models.sources.base import is_gguf

PREFIX = "package:"


def find_in_package(package: str) -> Path:
    """Return the `.gguf` file or model directory in `package`, without importing it."""
    roots = _roots(package)
    models = sorted({model for root in roots for model in _models(root)})
    if len(models) == 1:
        return models[0]
    if not models:
        raise SourceError(
            f"The package {package!r} holds no .gguf file and no directory with a "
            f"config.json and model*.safetensors (looked in {', '.join(map(str, roots))})."
        )
    listing = "\n  ".join(map(str, models))
    raise SourceError(
        f"The package {package!r} holds {len(models)} models, give the path of one:\n  {listing}"
    )


def _roots(package: str) -> list[Path]:
    # Asking for a dotted name would import its parents.
    if not package.isidentifier():
        hint = package.replace("-", "_")
        also = f", perhaps {PREFIX}{hint}" if hint.isidentifier() and find_spec(hint) else ""
        raise SourceError(
            f"{package!r} is not a top-level import name: give {PREFIX}<import name>{also}."
        )
    spec = find_spec(package)
    if spec is None:
        raise SourceError(
            f"The package {package!r} is not installed here: install the distribution that has it."
        )
    if not spec.submodule_search_locations:
        raise SourceError(f"{package!r} is a single module, not a package with files in it.")
    return [Path(root) for root in spec.submodule_search_locations]


def _models(root: Path) -> Iterator[Path]:
    for path in root.rglob("*.gguf"):
        if is_gguf(path) and path.is_file():
            yield path
    for path in root.rglob("config.json"):
        if any(path.parent.glob("model*.safetensors")):
            yield path.parent
