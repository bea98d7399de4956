"""Lazy public names, so that importing a package does not import MLX.

PEP 562. A process that wants a fast BLAS on Linux has to load it before MLX; it can
`import mlxlm_cache.device` first because nothing here imports more than it is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def attach(
    package: str, exports: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` for names that load on first use.

    `exports` maps a submodule, relative to `package`, to the public names it defines.
    The first use of a name raises ImportError naming the extra to install where MLX
    has no backend.
    """
    home = {name: module for module, names in exports.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] == "mlx" or "libmlx" in str(error):
                raise ImportError(_no_backend(package), name=error.name) from error
            raise

    def __dir__() -> list[str]:
        return sorted(home)

    return __getattr__, __dir__


def _no_backend(package: str) -> str:
    distribution = package.replace("_", "-")
    return (
        f"MLX has no backend in this environment: "
        f"pip install '{distribution}[cpu]' (or [cuda12], [cuda13])."
    )
