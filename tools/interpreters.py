"""Interpreters that pyenv has and its shims hide until `PYENV_VERSION` names them."""

import os
import shutil
import subprocess
from collections.abc import Iterable


def show_pyenv(minors: Iterable[str]) -> None:
    """Name pyenv's latest of each minor version, unless the environment names some already."""
    pyenv = shutil.which("pyenv")
    if pyenv is None or "PYENV_VERSION" in os.environ:
        return
    asked = [subprocess.run([pyenv, "latest", m], capture_output=True, text=True) for m in minors]
    found = [one.stdout.strip() for one in asked if one.returncode == 0]
    if found:
        os.environ["PYENV_VERSION"] = ":".join(found)
