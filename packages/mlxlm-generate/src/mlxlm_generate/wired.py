"""Keep model and cache resident in memory while generating, where the system can."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, cast

import mlx.core as mx
from mlx.utils import tree_flatten
from mlxlm_cache.device import backend, working_set

logger = logging.getLogger(__name__)

_TIGHT = 0.9  # of the working set: above this, other memory gets in the way
_lock = Lock()
_users = 0
_limit_before = 0


@contextmanager
def wired_limit(
    model: Any, streams: Sequence[mx.Stream | mx.ThreadLocalStream] | None = None
) -> Iterator[None]:
    """Raise MLX's wired limit to the recommended working set (macOS 15 or later).

    Warns, through `logging`, where the model nearly fills it. At the end waits for
    `streams` and sets the old limit again, once the last of
    several threads is done. Does nothing without Metal.
    """
    if backend() != "metal":
        yield
        return
    limit = working_set()
    _warn_if_tight(model, limit)
    _raise(limit)
    try:
        yield
    finally:
        for stream in streams or [mx.default_stream(mx.default_device())]:
            mx.synchronize(stream)
        _restore()


def _raise(limit: int) -> None:
    global _users, _limit_before
    with _lock:
        if _users == 0:
            _limit_before = mx.set_wired_limit(limit)
        _users += 1


def _restore() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            mx.set_wired_limit(_limit_before)


def _warn_if_tight(model: Any, limit: int) -> None:
    size = model_bytes(model)
    if size > _TIGHT * limit:
        megabytes = 2**20
        logger.warning(
            "The model needs %d MB, close to the %d MB that this machine recommends to keep "
            "resident; generation may be slow. Raise the limit with "
            "`sudo sysctl iogpu.wired_limit_mb=N`, N above the model's size and below the "
            "machine's memory.",
            size // megabytes,
            limit // megabytes,
        )


def model_bytes(model: Any) -> int:
    """Return the bytes of a model's arrays; 0 for a model that isn't an `nn.Module`."""

    leaves = cast(list[tuple[str, Any]], tree_flatten(model))
    return sum(leaf.nbytes for _, leaf in leaves if isinstance(leaf, mx.array))
