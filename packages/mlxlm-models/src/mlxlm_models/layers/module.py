"""The base of our modules."""

from typing import Any

import mlx.nn as nn


class Module(nn.Module):
    """`nn.Module` with a typed constructor.

    Calls reach submodules as `self["name"]`: attribute access goes through a slower path.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]


class Held(Module):
    """A module under one more name, where checkpoints have it a level further down."""

    def __init__(self, name: str, module: nn.Module) -> None:
        super().__init__()
        self._name = name
        self[name] = module

    def __call__(self, *args: Any) -> Any:
        return self[self._name](*args)

    def make_cache(self) -> Any:
        return self[self._name].make_cache()
