"""What this machine has: backend, memory and, on Linux CPU, a fast BLAS.

Importing this package imports neither MLX nor anything heavy, so a process can call
`preload_blas()` first.
"""

from mlxlm_cache.device.backend import Backend, backend
from mlxlm_cache.device.blas import Blas, blas_status, preload_blas
from mlxlm_cache.device.cores import usable_cores
from mlxlm_cache.device.memory import available_memory, total_memory, working_set

__all__ = [
    "Backend",
    "Blas",
    "available_memory",
    "backend",
    "blas_status",
    "preload_blas",
    "total_memory",
    "usable_cores",
    "working_set",
]
