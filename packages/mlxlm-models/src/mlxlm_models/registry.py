"""Architectures by `model_type`, through the entry-point group `mlxlm.models`.

Ours use the same door as anyone's: an installed distribution that declares
`my_type = "my_package.my_module:ARCHITECTURE"` in that group adds an architecture. Only
the family asked for is imported.
"""

import logging
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.errors import UnknownArchitecture

GROUP = "mlxlm.models"
_OWN_PACKAGE = "mlxlm_models"

_log = logging.getLogger(__name__)
_registered: dict[str, Architecture[Any]] = {}


def get_architecture(model_type: str) -> Architecture[Any]:
    """Return the architecture of `model_type`, importing its family.

    UnknownArchitecture, naming the nearest known types, where there is none.
    """
    if model_type in _registered:
        return _registered[model_type]
    entry = _entries().get(model_type)
    if entry is None:
        near = get_close_matches(model_type, list_architectures(), n=3)
        hint = f"the nearest known are {', '.join(near)}" if near else "nothing known is near it"
        raise UnknownArchitecture(
            f"No architecture is registered for model_type {model_type!r}; {hint}. "
            f"mlxlm_models.list_architectures() lists all; a distribution can add one through "
            f"the entry-point group {GROUP!r}."
        )
    found = entry.load()
    if not isinstance(found, Architecture):
        raise UnknownArchitecture(
            f"The entry point {model_type!r} of {_distribution(entry)} gives {found!r}, "
            f"which is not an Architecture: that distribution has to be mended."
        )
    _registered[model_type] = found
    return found


def list_architectures() -> list[str]:
    """Return every known `model_type`, sorted, without importing any family."""
    return sorted({*_entries(), *_registered})


def family(model_type: str) -> str:
    """Return the module that declares `model_type`, without importing it; KeyError for none."""
    return _entries()[model_type].module


def register_architecture(added: Architecture[Any]) -> None:
    """Make an architecture known in this process, in place of any of the same type."""
    _registered[added.model_type] = added


@cache
def _entries() -> dict[str, EntryPoint]:
    """Return the declared entry points; another distribution's wins over ours."""
    entries: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: not _is_own(e)):
        before = entries.get(entry.name)
        if before is not None and before.value != entry.value:
            _log.warning(
                "model_type %r: using the architecture of %s, not that of %s",
                entry.name,
                _distribution(entry),
                _distribution(before),
            )
        entries[entry.name] = entry
    return entries


def _is_own(entry: EntryPoint) -> bool:
    return entry.module.partition(".")[0] == _OWN_PACKAGE


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
