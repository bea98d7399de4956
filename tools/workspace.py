"""What the workspace holds: its packages, what each needs, and what depends on what."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def git(*arguments: str) -> bytes:
    """Return what git prints, run at the root."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def packages() -> list[str]:
    """Return the distributions of this tree."""
    return [file.parent.name for file in sorted(ROOT.glob("packages/*/pyproject.toml"))]


def folder(package: str) -> Path:
    """Return where a distribution lives in this tree."""
    return ROOT / "packages" / package


def configuration(source: Path) -> dict[str, Any]:
    """Read the `pyproject.toml` of a folder."""
    return tomllib.loads((source / "pyproject.toml").read_text())


def version(package: str) -> str:
    """Return the version that this tree states."""
    return str(configuration(folder(package))["project"]["version"])


def modules(source: Path) -> list[str]:
    """Return the top-level modules that a distribution's folder builds."""
    declared = configuration(source)
    build = declared.get("tool", {}).get("uv", {}).get("build-backend", {})
    names = build.get("module-name", declared["project"]["name"].replace("-", "_"))
    return [names] if isinstance(names, str) else list(names)


def siblings(source: Path) -> dict[str, Requirement]:
    """Return the workspace packages that a distribution's folder requires."""
    needs = map(Requirement, configuration(source)["project"]["dependencies"])
    return {need.name: need for need in needs if need.name in packages()}


def settle(made: Path, target: Path) -> None:
    """Give a finished folder its name, unless another process was first with the same."""
    try:
        made.rename(target)
    except OSError:
        if not target.exists():
            raise
