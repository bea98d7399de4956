"""Memory of this machine, in bytes, as far as this process may use it."""

import os
from pathlib import Path

from mlxlm_cache.device.backend import backend

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def total_memory() -> int:
    """Return the machine's memory, or the container's limit where that is lower."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, _number(_CGROUP / "memory.max") or total)


def available_memory() -> int:
    """Return how much can be taken now without swapping.

    On Linux the kernel's MemAvailable, bounded by what the container has left;
    elsewhere the total.
    """
    total = total_memory()
    free = _mem_available(_MEMINFO) or total
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and used is not None:
        free = min(free, limit - used)
    return max(0, min(free, total))


def working_set() -> int:
    """Return what MLX's default device recommends to keep resident; on CPU the total."""
    import mlx.core as mx

    if backend() == "cpu":
        return total_memory()
    info = mx.device_info()
    size = info.get("max_recommended_working_set_size") or info.get("memory_size")
    return int(size) if size else total_memory()


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such file, or "max": no limit
        return None


def _mem_available(file: Path) -> int | None:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
