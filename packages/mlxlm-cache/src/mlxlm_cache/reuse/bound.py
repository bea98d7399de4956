"""How much memory prompts may take where nobody says."""

import mlx.core as mx

from mlxlm_cache.device import available_memory, backend, working_set


def default_bound() -> int:
    """Return half of the memory that arrays can take now, in bytes (R20).

    The other half is for the requests being computed.
    """
    room = working_set() - mx.get_active_memory()
    if backend() != "cuda":  # elsewhere arrays lie in the machine's own memory
        room = min(room, available_memory())
    return max(0, room // 2)
