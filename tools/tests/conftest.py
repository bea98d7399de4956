"""A small workspace in a repository of its own: `demo-app` needs `demo-lib`."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1]
PROJECT = """[project]
name = "{name}"
version = "0.1.0"
description = "Made for a test."
readme = "README.md"
requires-python = ">=3.11"
dependencies = [{needs}]

[build-system]
requires = ["uv_build>=0.11,<0.14"]
build-backend = "uv_build"
"""
WORKSPACE = """[project]
name = "demo"
version = "0"
requires-python = ">=3.11"

[tool.uv]
package = false

[tool.uv.workspace]
members = ["packages/*"]

[tool.uv.sources]
demo-lib = { workspace = true }
"""
LIBRARY = "class Store:\n    def trim(self, count: int) -> int:\n        return count\n"
EXPORTS = (
    "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from demo_lib.store import Store\n"
)


@dataclass
class Repository:
    """A clone, and the commands that act on it."""

    root: Path

    def write(self, file: str, text: str) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, file: str) -> str:
        return (self.root / file).read_text()

    def replace(self, file: str, old: str, new: str) -> None:
        assert old in self.read(file)
        self.write(file, self.read(file).replace(old, new))

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
        command = ["git", *identity, *arguments]
        done = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the tools in the repository: `run("release", "changed")`."""
        command = [sys.executable, "-m", f"tools.{arguments[0]}", *arguments[1:]]
        plain = {**os.environ, "UV_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, env=plain)

    def release(self, package: str, day: str = "2026-01-01") -> str:
        """Bump a package and commit; return the commit."""
        done = self.run("release", "bump", package, "--date", day)
        assert done.returncode == 0, done.stderr
        return self.commit(f"Release {package}")

    def python(self, code: str) -> str:
        """Run a line with the tools importable and return what it prints."""
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a committed workspace in which nothing is released."""
    made = Repository(tmp_path / "demo")
    skip = shutil.ignore_patterns("__pycache__", "tests", "bench", "goldens")
    shutil.copytree(TOOLS, made.root / "tools", ignore=skip)
    made.write("pyproject.toml", WORKSPACE)
    made.write(".gitignore", "build/\n.venv/\n__pycache__/\ndist/\n")
    for name, needs in (("demo-lib", ""), ("demo-app", '"demo-lib>=0.1.0,<0.2"')):
        made.write(f"packages/{name}/pyproject.toml", PROJECT.format(name=name, needs=needs))
        made.write(f"packages/{name}/README.md", f"# {name}\n")
        made.write(f"packages/{name}/CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")
        made.write(f"packages/{name}/changes/+first.added.md", "The first thing.\n")
    made.write("packages/demo-lib/src/demo_lib/__init__.py", EXPORTS)
    made.write("packages/demo-lib/src/demo_lib/store.py", LIBRARY)
    made.write("packages/demo-app/src/demo_app/__init__.py", '"""An app."""\n')
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit("Begin")
    return made
