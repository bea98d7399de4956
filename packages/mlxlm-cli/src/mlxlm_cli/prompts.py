"""From flags to the text and messages that a model is asked."""

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TextIO

from mlxlm_cli.arguments.parser import flag_of
from mlxlm_cli.arguments.values import readable
from mlxlm_cli.errors import CommandError, UsageError

Message = dict[str, str]


def expand(text: str) -> str:
    r"""Turn the two characters `\n` into a newline and `\t` into a tab."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def read_prompt(text: str, stdin: TextIO | None = None) -> str:
    """Return the prompt: escapes expanded, or all of stdin for `-`.

    What comes from stdin is taken as it is. Raises UsageError for an empty prompt.
    """
    prompt = expand(text)
    if prompt == "-":
        prompt = _read_all(sys.stdin if stdin is None else stdin)
    if not prompt:
        raise UsageError("the prompt is empty: give --prompt some text, or pipe some in")
    return prompt


def _read_all(stream: TextIO | None) -> str:
    if stream is None:
        raise CommandError("standard input is closed, and --prompt - reads it")
    return from_stdin(stream.read)


def from_stdin(read: Callable[[], str]) -> str:
    """Return what `read` reads; CommandError if its bytes weren't UTF-8."""
    try:
        return readable(read())
    except UnicodeDecodeError as error:
        raise CommandError(f"standard input isn't UTF-8 (byte {error.start})") from None


def messages(prompt: str, system_prompt: str | None, prefill: str | None = None) -> list[Message]:
    """Return a conversation of one question, its answer begun where `prefill` is given."""
    asked = [{"role": "user", "content": prompt}]
    if system_prompt is not None:
        asked.insert(0, {"role": "system", "content": system_prompt})
    if prefill is not None:
        asked.append({"role": "assistant", "content": prefill})
    return asked


def check_template_flags(args: Namespace) -> None:
    """Refuse flags that only a chat template could honour next to --ignore-chat-template."""
    if not args.ignore_chat_template:
        return
    for flag in template_flags(args):
        raise UsageError(f"{flag} needs the chat template that --ignore-chat-template leaves out")


def template_flags(args: Namespace) -> list[str]:
    """Return the given flags that only a chat template can honour."""
    names = ("system_prompt", "prefill_response", "chat_template_config")
    wanted = [flag_of(name) for name in names if name in args.given]
    if args.use_default_chat_template:
        wanted.append("--use-default-chat-template")
    return wanted
