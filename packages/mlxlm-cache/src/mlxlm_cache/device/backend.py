"""Which of MLX's backends computes here."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

Backend = Literal["metal", "cuda", "cpu"]


def backend() -> Backend:
    """Return the backend of MLX's default device. Imports MLX."""
    import mlx.core as mx

    if mx.default_device().type == mx.DeviceType.cpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


@cache
def has_cpu_wheel() -> bool:
    """Tell, without importing MLX, whether it is the wheel with the reference BLAS."""
    try:
        version("mlx-cpu")
    except PackageNotFoundError:
        return False
    return True
