"""The base of our modules."""

import mlx.nn as nn


class Module(nn.Module):
    """`nn.Module` with a typed constructor.

    Calls reach submodules as `self["name"]`: attribute access goes through a slower path.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
