"""`--config`: flags from a TOML file. What the command line says overrides it."""

import argparse
import json
from argparse import Namespace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mlxlm_cli.arguments.parser import Parser, flag_of
from mlxlm_cli.errors import CommandError, UsageError


def add_config_flag(parser: Parser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file with flags by their names, such as max-queue = 64; flags given here "
        "override it",
    )


def apply_config(parser: Parser, args: Namespace) -> None:
    """Set what the file of `--config` says and the command line doesn't.

    UsageError for what the parser would refuse on a command line; it names the file.
    """
    file = getattr(args, "config", None)
    if file is None:
        return
    words = _words(parser, file, _read(file))
    parser.source = f"{file}: "
    try:
        said = parser.parse_args(words)
    finally:
        parser.source = ""
    for dest in said.given - args.given:
        setattr(args, dest, getattr(said, dest))
    args.given |= said.given


def _read(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"--config: {file} can't be read: {error.strerror}") from error
    except ValueError as error:  # of TOML, or of UTF-8
        raise UsageError(f"{file} isn't TOML: {error}") from error


def _words(parser: Parser, file: Path, settings: dict[str, Any]) -> list[str]:
    """Return the command line that says the same."""
    known = {
        action.dest: action
        for action in parser._actions
        if action.dest not in (argparse.SUPPRESS, "help", "config")
    }
    words: list[str] = []
    for key, value in settings.items():
        action = known.get(key.replace("-", "_"))
        if action is None:
            names = [flag_of(dest).removeprefix("--") for dest in known]
            close = get_close_matches(key.replace("_", "-"), names, n=1, cutoff=0)
            raise UsageError(f"{file}: there is no setting {key!r}; the nearest is {close[0]!r}")
        words += _flag(action, f"{file}: {key}", value)
    return words


def _flag(action: argparse.Action, where: str, value: Any) -> list[str]:
    flag = flag_of(action.dest)
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError(f"{where} wants true or false, not {value!r}")
        return [flag] if value else []
    several = isinstance(action, argparse._AppendAction)
    if isinstance(value, dict):
        if several:
            return [f"{flag}={name}={_text(where, each)}" for name, each in value.items()]
        return [f"{flag}={json.dumps(value)}"]
    if isinstance(value, list):
        texts = [_text(where, each) for each in value]
        return [f"{flag}={text}" for text in (texts if several else [",".join(texts)])]
    return [f"{flag}={_text(where, value)}"]


def _text(where: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{where} wants a text or a number, not {value!r}")
    return str(value)
