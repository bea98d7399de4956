"""Runs the commands as a user would: the installed scripts, in processes of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mlxlm_cache.device import preload_blas

preload_blas()

# A shell's background jobs ignore Ctrl-C, and so would the commands that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def scripts() -> Path:
    """The directory with the installed commands."""
    return Path(sys.executable).parent


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment without a hub and with a state directory of its own."""
    state = str(tmp_path_factory.mktemp("state"))
    return os.environ | {"HF_HUB_OFFLINE": "1", "XDG_STATE_HOME": state}


@pytest.fixture(scope="session")
def command(scripts: Path, environment: dict[str, str]) -> Run:
    """Call with a script's name (or `python`) and its arguments."""

    def run(name: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [scripts / name, *arguments],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
