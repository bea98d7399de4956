"""R53: what README.md says of commands, flags and output is what they are."""

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from mlxlm_cli import chat, generate, server
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.commands import COMMANDS, NOT_YET

PACKAGES = Path(__file__).parents[2]
README = (PACKAGES / "mlxlm-cli" / "README.md").read_text(encoding="utf-8")
OF_SERVER = (PACKAGES / "mlxlm-server" / "README.md").read_text(encoding="utf-8")


def shown(action: argparse.Action) -> str:
    default = action.default
    if default in ((), "", argparse.SUPPRESS) or default is None:
        return ""
    if action.nargs == 0:
        return "off"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def table(parser: Parser) -> str:
    rows = [
        f"| {', '.join(f'`{flag}`' for flag in action.option_strings)} "
        f"| {shown(action)} | {(action.help or '').replace('<', '&lt;')} |"
        for action in parser._actions
    ]
    return "\n".join(["| flag | default | |", "|---|---|---|", *rows])


@pytest.mark.parametrize(
    ("command", "readme"),
    [(generate, README), (chat, README), (server, OF_SERVER)],
    ids=["generate", "chat", "server"],
)
def test_R53_the_flag_tables_are_the_parsers(command: Any, readme: str) -> None:
    assert table(command.build_parser()) in readme


def test_R53_the_commands_are_those_there_are() -> None:
    rows = [f"| `mlxlm {name}` | {command.summary} |" for name, command in COMMANDS.items()]
    assert "\n".join(rows) in README
    assert "Not there yet: " + ", ".join(f"`{name}`" for name in NOT_YET) + "." in README


def test_R53_the_example_prints_what_the_readme_shows(command: Any) -> None:
    (example,) = re.findall(r"```console\n\$ (.+)\n((?:.|\n)+?)```", README)
    name, *arguments = shlex.split(example[0])
    done = command(name, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, example[1], "")
