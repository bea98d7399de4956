"""The golden cases: one per `model_type`, and one per special path, a module per family."""

from importlib import import_module
from pkgutil import iter_modules

from .base import Case

CASES: dict[str, Case] = {}
for _module in iter_modules(__path__):
    if _module.name != "base":
        CASES |= import_module(f"{__name__}.{_module.name}").CASES
