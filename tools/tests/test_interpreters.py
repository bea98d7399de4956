import os

import pytest

from tools.interpreters import show_pyenv

PYENV = """#!/bin/sh
case "$2" in 3.11) echo 3.11.9;; 3.12) echo 3.12.4;; *) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        (None, "3.11.9:3.12.4"),
        ("3.11.7", "3.11.7:3.12.4"),  # what a shim leaves
        ("3.12.1:3.11.2", "3.12.1:3.11.2"),
        ("3.1.4", "3.1.4:3.11.9:3.12.4"),
    ],
)
def test_versions_that_the_environment_lacks_are_added(tmp_path, monkeypatch, named, shown) -> None:
    pyenv = tmp_path / "pyenv"
    pyenv.write_text(PYENV)
    pyenv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if named is None:
        monkeypatch.delenv("PYENV_VERSION", raising=False)
    else:
        monkeypatch.setenv("PYENV_VERSION", named)
    show_pyenv(["3.11", "3.12", "3.13"])
    assert os.environ["PYENV_VERSION"] == shown


def test_without_pyenv_nothing_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYENV_VERSION", raising=False)
    show_pyenv(["3.11"])
    assert "PYENV_VERSION" not in os.environ
