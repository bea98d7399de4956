"""A short soak of the server; `python -m tools.soak` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("faults", [[], ["--faults"]], ids=["soak", "faults"])
def test_R31_R59_many_requests_at_once_are_answered_as_each_would_be_alone(
    faults: list[str],
) -> None:
    command = [sys.executable, "-m", "tools.soak", "--requests", "100", *faults]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all right\n")
