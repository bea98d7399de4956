"""The names of mlx-lm, served by mlxlm.

Importing this is cheap: a name is imported when it is first used. In mlx-lm `generate` is
both a function of the package and a module in it; here as well.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlxlm_generate import generate, stream_generate
    from mlxlm_models import load

__all__ = ["__version__", "generate", "load", "stream_generate"]

_HOMES = {"load": "mlxlm_models", "stream_generate": "mlxlm_generate"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from mlxlm_cli.arguments.version import own_version

        return own_version()
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Facade(ModuleType):
    """Keeps `mlx_lm.generate` the function once the module of that name is imported.

    The import system stores a submodule on its package, which would hide the function.
    """

    @property
    def generate(self) -> Any:
        return import_module("mlxlm_generate").generate

    @generate.setter
    def generate(self, value: Any) -> None:
        if not isinstance(value, ModuleType):
            raise AttributeError("mlx_lm.generate can't be replaced; see mlxlm_generate.generate")


sys.modules[__name__].__class__ = _Facade
