"""How many cores this process may use."""

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Return the cores of the affinity mask, or fewer where a container has a quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota(_QUOTA)
    return cores if quota is None else max(1, min(cores, quota))


def _quota(file: Path) -> int | None:
    """Return the whole cores that a cgroup v2 `cpu.max` allows ("200000 100000" is 2)."""
    try:
        allowed, period = file.read_text().split()
        return int(allowed) // int(period)
    except (OSError, ValueError):  # no such file, or "max": no limit
        return None
