"""Interpreters that pyenv has and its shims hide until `PYENV_VERSION` names them."""

import os
import shutil
import subprocess
from collections.abc import Iterable


def show_pyenv(minors: Iterable[str]) -> None:
    """Name pyenv's latest of each minor version, after those that the environment names.

    A command that itself came through a shim, as `uv` may, finds its own version there.
    """
    pyenv = shutil.which("pyenv")
    if pyenv is None:
        return
    named = list(filter(None, os.environ.get("PYENV_VERSION", "").split(":")))
    for minor in minors:
        if not any(f"{version}.".startswith(f"{minor}.") for version in named):
            latest = subprocess.run([pyenv, "latest", minor], capture_output=True, text=True)
            if latest.returncode == 0:
                named.append(latest.stdout.strip())
    if named:
        os.environ["PYENV_VERSION"] = ":".join(named)
