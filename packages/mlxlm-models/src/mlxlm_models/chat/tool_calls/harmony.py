"""Harmony, the format of gpt-oss: messages on channels, some to a function.

https://github.com/openai/harmony
"""

import re
from dataclasses import dataclass

from .call import ToolCallError, Tools, from_json, make_call
from .form import IN_JSON, Block, Read

MESSAGE = "<|message|>"
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
MESSAGE_ENDS = ("<|call|>", "<|end|>", "<|return|>")
_HEADER = 512


@dataclass(frozen=True)
class Message:
    """A message's header: dropped, unless it is to a function. Then the message is a call."""

    start: str
    beginning: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        return ("<|call|>",)

    def read(self, text: str, final: bool, tools: Tools | None) -> Read | None:
        """See `Block.read`."""
        at = text.find(MESSAGE)
        if at < 0 or at > _HEADER:
            if at < 0 and not final and len(text) < _HEADER + len(MESSAGE):
                return None
            raise ToolCallError("a message has no <|message|>")
        opened = at + len(MESSAGE)
        recipient = _RECIPIENT.search(text, 0, at)
        if recipient is None:
            return Read((), opened)
        name = recipient[1].removeprefix("functions.")
        body = Block(
            "",
            "<|call|>",
            lambda arguments, _: [make_call(name, from_json(arguments.strip() or "{}"))],
            IN_JSON,
        )
        read = body.read(text[opened:], final, tools)
        return None if read is None else Read(read.calls, opened + read.consumed)
