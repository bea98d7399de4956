"""How many threads the BLAS should use while others use the machine too.

OpenBLAS shares a product out to its threads and waits, spinning, for the last one. With a
free core for each that doubles the speed of a small product; with another process on one
of the cores, every product waits for the scheduler, and a decode step that takes 0.2 s on
one thread takes 1 s on two. So a thread is used for each core that is free, and looked at
anew twice a second.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 0.5  # seconds between looks: /proc/stat counts hundredths

_STAT = Path("/proc/stat")
_BUSY_SHARE = 0.35  # of a core: less than this taken by others still counts as free


@dataclass(frozen=True)
class Usage:
    """Seconds so far: on the clock, busy on the cores we may use, busy for this process."""

    clock: float
    busy: float
    own: float


def read_usage(stat: Path = _STAT) -> Usage | None:
    """Return the usage now, or None where the system doesn't tell."""
    try:
        text = stat.read_text()
        ours = os.sched_getaffinity(0)
    except (OSError, AttributeError):
        return None
    ticks = 0
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in ours:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + softirq + steal
    return Usage(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time())


def free_cores(before: Usage, after: Usage, cores: int) -> int:
    """Return how many of `cores` others left to this process between two looks; at least 1."""
    elapsed = max(after.clock - before.clock, 1e-9)
    others = (after.busy - before.busy) - (after.own - before.own)
    return max(1, min(cores, int(cores - max(0.0, others / elapsed) + _BUSY_SHARE)))


def follow_free_cores(
    set_threads: Callable[[int], object],
    usable: int,
    *,
    look: Callable[[], Usage | None] = read_usage,
    interval: float = INTERVAL,
) -> None:
    """Set the number of threads to that of the free cores from now on, at most `usable`.

    A daemon thread does it, which costs about 0.01% of a core. Nothing is done where
    there is one core or the system doesn't tell.
    """
    first = look()
    if usable <= 1 or first is None:
        return
    cores = len(os.sched_getaffinity(0))

    def follow() -> None:
        before, threads = first, usable
        while True:
            time.sleep(interval)
            after = look()
            if after is None:
                return
            wanted = min(usable, free_cores(before, after, cores))
            if wanted != threads:
                set_threads(wanted)
                threads = wanted
            before = after

    threading.Thread(target=follow, name="mlxlm-blas", daemon=True).start()
