"""What the flags of `mlx_lm.server` accept."""

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"[\w][\w.:/-]*")


class Named(NamedTuple):
    """A name that requests ask for, and where it is found."""

    name: str
    source: str


def named(wanted: str | None = None) -> Callable[[str], Named]:
    """Return a type for NAME=SOURCE; a model may go without, and then has its own name.

    That of a directory is the last part of its path: clients are told names, never paths.
    """

    def convert(text: str) -> Named:
        name, equals, source = text.partition("=")
        if equals and _NAME.fullmatch(name) and source and not Path(text).exists():
            return Named(name, _home(source))
        if wanted is not None:
            raise ArgumentTypeError(f"wants NAME={wanted}, not {text!r}")
        if not text:
            raise ArgumentTypeError("wants a model, not an empty text")
        path = Path(_home(text))
        if path.is_absolute() or path.exists():
            name = path.resolve().stem if path.suffix == ".gguf" else path.resolve().name
            return Named(name, str(path))
        return Named(text, text)

    return convert


def _home(path: str) -> str:
    """Expand `~`, which a shell leaves alone after `=`."""
    return str(Path(path).expanduser()) if path.startswith("~") else path


def api_keys(text: str) -> tuple[str, ...]:
    """Read keys from `file:FILE`, one a line, or from the environment variable of `env:NAME`."""
    kind, _, where = text.partition(":")
    if kind == "env" and where:
        keys = os.environ.get(where, "").split()
        if not keys:
            raise ArgumentTypeError(f"the environment variable {where} is not set, or is empty")
    elif kind == "file" and where:
        keys = _read(Path(where).expanduser()).split()
        if not keys:
            raise ArgumentTypeError(f"{where} has no key in it")
    else:
        # What was given may be a key: it is not repeated.
        raise ArgumentTypeError(
            "wants file:FILE or env:NAME; a key itself would show in the list of processes"
        )
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise ArgumentTypeError(f"{where} has a key with characters other than printable ASCII")
    return tuple(keys)


def template(text: str) -> str:
    """Return a chat template, read from a file where the text is `@` and its path."""
    return _read(Path(text[1:]).expanduser()) if text.startswith("@") else text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArgumentTypeError(f"{path} isn't UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise ArgumentTypeError(f"{path} can't be read: {error.strerror}") from None
