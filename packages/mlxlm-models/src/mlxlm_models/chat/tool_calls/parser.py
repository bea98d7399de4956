"""How a family of models writes its tool calls."""

from dataclasses import dataclass, field
from typing import Any

from .call import ToolCallError, Tools
from .form import Form
from .stream import read_tool_calls

Marker = str | tuple[str, ...]
"""What a template mentions, or any of several."""


@dataclass(frozen=True)
class ToolParser:
    """Called with what lies between `start` and `end`, reads the calls there.

    `ToolCallStream` and `read_tool_calls` read whole answers.
    """

    name: str
    start: str
    end: str
    """What ends a call; empty where the end of the answer does."""
    markers: tuple[Marker, ...] = field(repr=False)
    """What a template must mention for this parser to be its candidate."""
    forms: tuple[Form, ...] = field(repr=False)
    decisive: tuple[Marker, ...] = field(default=(), repr=False)
    """What no other parser's template mentions: settles it among several candidates."""
    silent: tuple[str, ...] = field(default=(), repr=False)
    """What is no part of a call, nor text for the reader."""
    between: str = field(default="", repr=False)
    """What separates calls that have no markers."""

    def __call__(
        self, text: str, tools: Tools | None = None
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the call `{"name", "arguments"}`, with `"id"` if it has one, or a list of several.

        ToolCallError, a ValueError, where there is none, or other text beside it.
        """
        answer = read_tool_calls(self.start + text + self.end, self, tools)
        if not answer.calls or answer.text:
            shown = text if len(text) <= 80 else text[:77] + "..."
            raise ToolCallError(f"not a tool call as {self.name} writes them: {shown!r}")
        calls = [call.to_dict() for call in answer.calls]
        return calls[0] if len(calls) == 1 else calls
