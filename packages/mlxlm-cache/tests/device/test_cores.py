import os
from pathlib import Path

import pytest
from mlxlm_cache.device import cores, usable_cores


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of eight cores; returns where its quota would be."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "_QUOTA", tmp_path / "cpu.max")
    return tmp_path / "cpu.max"


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 8),
        ("300000 100000", 3),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("1600000 100000", 8),
        ("nonsense", 8),
    ],
)
def test_a_quota_lowers_the_number(machine: Path, quota: str, expected: int) -> None:
    machine.write_text(quota + "\n")
    assert usable_cores() == expected


def test_without_a_quota_the_affinity_counts(machine: Path) -> None:
    assert usable_cores() == 8


def test_without_affinity_all_cores_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
