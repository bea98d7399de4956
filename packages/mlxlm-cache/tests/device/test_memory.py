import os
from pathlib import Path

import pytest
from mlxlm_cache.device import available_memory, backend, memory, total_memory, working_set

GB = 2**30


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of 16 GB with 10 available; returns its control group's folder."""
    pages = {"SC_PHYS_PAGES": 16 * GB // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {10 * GB // 1024} kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    return tmp_path


def test_a_machine_without_limits(machine: Path) -> None:
    assert (total_memory(), available_memory()) == (16 * GB, 10 * GB)


def test_a_group_without_a_limit(machine: Path) -> None:
    (machine / "memory.max").write_text("max\n")
    (machine / "memory.current").write_text(f"{GB}\n")
    assert (total_memory(), available_memory()) == (16 * GB, 10 * GB)


def test_a_group_with_a_limit(machine: Path) -> None:
    (machine / "memory.max").write_text(f"{4 * GB}\n")
    (machine / "memory.current").write_text(f"{GB}\n")
    assert (total_memory(), available_memory()) == (4 * GB, 3 * GB)
    (machine / "memory.current").write_text(f"{5 * GB}\n")
    assert available_memory() == 0


def test_a_machine_that_does_not_say_what_is_available(machine: Path) -> None:
    (machine / "meminfo").unlink()
    assert available_memory() == 16 * GB


def test_this_machine_makes_sense() -> None:
    assert 0 < available_memory() <= total_memory()
    assert working_set() > 0
    if backend() == "cpu":
        assert working_set() == total_memory()
