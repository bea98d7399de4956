import os
import threading
from pathlib import Path

import pytest
from mlxlm_cache.device.threads import Usage, follow_free_cores, free_cores, read_usage

needs_proc = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="Linux only")
START = Usage(clock=10.0, busy=100.0, own=50.0)


@pytest.mark.parametrize(
    ("busy", "own", "cores", "free"),
    [
        (1.0, 1.0, 2, 2),  # all of it our own work
        (2.0, 2.0, 2, 2),
        (1.1, 1.0, 2, 2),  # others take a tenth of a core
        (2.0, 1.0, 2, 1),  # others take a whole one
        (4.0, 0.5, 2, 1),  # more than there is: one thread all the same
        (3.0, 1.0, 8, 6),
        (0.9, 1.0, 2, 2),  # the two clocks disagree a little
    ],
)
def test_a_thread_for_each_core_that_others_leave(
    busy: float, own: float, cores: int, free: int
) -> None:
    after = Usage(START.clock + 1, START.busy + busy, START.own + own)
    assert free_cores(START, after, cores) == free


@needs_proc
def test_usage_counts_the_allowed_cores_alone(tmp_path: Path) -> None:
    ours = min(os.sched_getaffinity(0))
    stat = tmp_path / "stat"
    stat.write_text(
        f"cpu  9 9 9 9 9 9 9 9 0 0\ncpu{ours} 100 20 30 999 5 1 2 3 0 0\ncpu9999 7 7 7 7 7 7 7 7\n"
    )
    usage = read_usage(stat)
    assert usage is not None
    assert usage.busy * os.sysconf("SC_CLK_TCK") == 156


def test_unreadable_usage_is_none(tmp_path: Path) -> None:
    assert read_usage(tmp_path / "absent") is None


def test_threads_follow_what_is_free() -> None:
    """Others take a core for one look, then leave it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    looks = iter([Usage(0, 0, 0), Usage(1, 1.0 + cores - 1, 1.0), Usage(2, 1.0 + cores, 2.0), None])
    told: list[int] = []
    done = threading.Event()

    def look() -> Usage | None:
        usage = next(looks)
        if usage is None:
            done.set()
        return usage

    follow_free_cores(told.append, max(2, cores), look=look, interval=0.01)
    assert done.wait(5)
    assert told == ([1, cores] if cores > 1 else [1])


def test_one_core_is_left_alone() -> None:
    before = threading.active_count()
    follow_free_cores(lambda _: None, 1)
    assert threading.active_count() == before
