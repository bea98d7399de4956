"""Serve another package's public names from a module of the facade."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def forward(module: str, package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for `module`: the public names of `package`.

    Nothing is imported before a name is used.
    """

    def public() -> set[str]:
        return {name for name in dir(import_module(package)) if not name.startswith("_")}

    def __getattr__(name: str) -> Any:
        if name.startswith("_") or name not in public():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(package), name)

    def __dir__() -> list[str]:
        return sorted(public())

    return __getattr__, __dir__
