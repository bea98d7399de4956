"""What the README shows works as shown."""

import re
import subprocess
import sys
from pathlib import Path


def blocks(file: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", file.read_text(), flags=re.S)


def test_first_command_answers(repository: Path, command) -> None:
    line = next(
        line
        for line in blocks(repository / "README.md", "bash")[0].splitlines()
        if "uv run" in line
    )
    name, *arguments = re.findall(r'"[^"]*"|\S+', line.split("--group demo ")[1])
    done = command(name, *(argument.strip('"') for argument in arguments))
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert "tokens-per-sec" not in done.stdout


def test_example_runs(repository: Path) -> None:
    (example,) = blocks(repository / "README.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


def test_commands_exist(repository: Path, command) -> None:
    table = re.findall(r"^\| `([^`]+)` \|", (repository / "README.md").read_text(), flags=re.M)
    assert "mlx_lm.generate" in table
    for entry in table:
        done = command(*entry.split(), "--help")
        assert done.returncode == 0, (entry, done.stderr)
