"""One sum of memory for keys and values, and its two parts."""

from dataclasses import dataclass

import mlx.core as mx
from mlxlm_cache.device import available_memory, working_set

from mlxlm_server.settings import ServerSettings

_SHARE = 0.8  # of what is free: activations and other programs need some too


@dataclass(frozen=True)
class Shares:
    """Bytes for requests under way, and for prefixes kept for later."""

    requests: int
    prefixes: int


def shares(settings: ServerSettings) -> Shares:
    """Return one model's part of the limit, or of what is free now, the model being loaded."""
    free = max(0, min(available_memory(), working_set() - mx.get_active_memory()))
    whole = int(_SHARE * free) if settings.memory_limit is None else settings.memory_limit
    whole //= settings.max_models
    asked = settings.prompt_cache_bytes
    prefixes = whole // 3 if asked is None else min(asked, whole)
    if settings.prompt_cache_size == 0:
        prefixes = 0
    return Shares(whole - prefixes, prefixes)
