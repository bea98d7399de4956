"""What a flag accepts. Each returns a value or raises with the reason argparse shows."""

import json
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any


def boolean(text: str) -> bool:
    """Accept true/t/false/f in any case (`--verbose false`)."""
    truth = {"true": True, "t": True, "false": False, "f": False}.get(text.lower())
    if truth is None:
        raise ArgumentTypeError(f"wants true or false, not {text!r}")
    return truth


def integer(low: int, *, most: int | None = None, also: int | None = None) -> Callable[[str], int]:
    """Return a type for whole numbers from `low` to `most`, and for the one number `also`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ArgumentTypeError(f"wants a whole number, not {text!r}") from None
        if value < low and value != also:
            more = "" if also is None else f", or {also}"
            raise ArgumentTypeError(f"has to be at least {low}{more}, but is {value}")
        if most is not None and value > most:
            raise ArgumentTypeError(f"can be {most} at most, but is {value}")
        return value

    return convert


def size(low: int = 0) -> Callable[[str], int]:
    """Return a type for bytes: a number alone, or with a unit as in 512MB, 1.5 GiB."""

    def convert(text: str) -> int:
        match = _SIZE.fullmatch(text.strip())
        if match is None:
            raise ArgumentTypeError(f"wants a size such as 8GB, 512MiB or bytes, not {text!r}")
        amount, prefix, binary = match.groups()
        base = 1024 if binary else 1000
        value: int = round(float(amount) * base ** " KMGT".index(prefix.upper() or " "))
        if value < low:
            raise ArgumentTypeError(f"has to be at least {low} bytes, but is {value}")
        return value

    return convert


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(i(?=B))?B?", re.IGNORECASE)


def number(low: float, high: float = math.inf) -> Callable[[str], float]:
    """Return a type for finite numbers in [low, high]."""
    wanted = f"at least {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ArgumentTypeError(f"wants a number, not {text!r}") from None
        if not math.isfinite(value) or not low <= value <= high:
            raise ArgumentTypeError(f"has to be {wanted}, but is {value:g}")
        return value

    return convert


def utf_8(text: str) -> str:
    """Accept text; bytes that the locale couldn't read have to be UTF-8."""
    try:
        return readable(text)
    except UnicodeDecodeError as error:
        raise ArgumentTypeError(f"isn't valid UTF-8 (byte {error.start})") from None


def readable(text: str) -> str:
    """Return `text` with its lone surrogates, bytes that Python couldn't read, as UTF-8.

    A C locale makes them of everything that isn't ASCII. UnicodeDecodeError if they aren't.
    """
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode()


_NOT_THE_TEMPLATES = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "conversation"}
    | {"messages", "return_dict", "return_tensors", "tokenize"}
)
"""What the commands pass to `apply_chat_template` themselves."""


def template_settings(text: str) -> dict[str, Any]:
    """Accept a JSON object of settings that a chat template can read."""
    settings = json_object(text)
    if taken := sorted(_NOT_THE_TEMPLATES & settings.keys()):
        raise ArgumentTypeError(f"{taken[0]!r} is no setting of a template: leave it out")
    return settings


def json_object(text: str) -> dict[str, Any]:
    """Accept a JSON object, such as '{"enable_thinking": false}'."""
    try:
        value = json.loads(utf_8(text))
    except json.JSONDecodeError as error:
        raise ArgumentTypeError(f"isn't JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"wants a JSON object, not {text}")
    return value
