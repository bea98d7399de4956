"""Importing changes nothing, and what is imported is declared."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

PACKAGES = sorted((Path(__file__).parents[2] / "packages").glob("mlxlm-*"))
FACADE = "mlx_lm"

UNCHANGED = """
import logging, os, resource, sys, threading
def state():
    return (
        resource.getrlimit(resource.RLIMIT_NOFILE), dict(os.environ), threading.active_count(),
        logging.root.handlers[:], logging.root.level,
    )
before = state()
import {module}
for name in dir({module}):
    getattr({module}, name)
assert state() == before, (before, state())
"""


@pytest.mark.parametrize(
    "module", [*(package.name.replace("-", "_") for package in PACKAGES), FACADE]
)
def test_R44_importing_changes_nothing(module: str) -> None:
    """File limits, environment, threads and logging stay as they were."""
    subprocess.run([sys.executable, "-c", UNCHANGED.format(module=module)], check=True)


@pytest.mark.parametrize("package", PACKAGES, ids=[package.name for package in PACKAGES])
def test_R43_every_import_is_declared(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + sum(
        project["project"]["optional-dependencies"].values(), []
    )
    declared = {normal(re.match(r"[\w.-]+", one)[0]) for one in wanted}  # type: ignore[index]
    checks = project.get("tool", {}).get("deptry", {}).get("per_rule_ignores", {})
    optional = checks.get("DEP001", [])
    own = {folder.name for folder in (package / "src").iterdir()}
    providers = packages_distributions()
    for file in sorted((package / "src").rglob("*.py")):
        for name in imports(file) - sys.stdlib_module_names - own - set(optional):
            found = {normal(one) for one in providers.get(name, [name])}
            assert found & declared, f"{file} imports {name}, which {package.name} doesn't declare"


def imports(file: Path) -> set[str]:
    """Return the top-level names that a source file imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
