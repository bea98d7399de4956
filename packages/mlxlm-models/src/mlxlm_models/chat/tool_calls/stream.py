"""Tool calls out of streamed text, wherever the pieces are cut."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlxlm_models.chat.deltas import PARAGRAPH, TextDelta, begun, joined

from .call import ToolCall, ToolCallError, Tools
from .form import SHORT, Form

if TYPE_CHECKING:
    from .parser import ToolParser


@dataclass(frozen=True)
class ToolCallBegin:
    """Call number `index`, from 0, has begun; `id` is what the model wrote, if anything."""

    index: int
    name: str
    id: str | None = None


@dataclass(frozen=True)
class ArgumentsDelta:
    """A piece of the JSON text of call `index`'s arguments."""

    index: int
    json: str


ToolCallEvent = TextDelta | ToolCallBegin | ArgumentsDelta


@dataclass(frozen=True)
class ToolCallText:
    """An answer: its text without the calls, and the calls."""

    text: str
    calls: tuple[ToolCall, ...]


class ToolCallStream:
    """Parts streamed text into text and tool calls, however the text is cut.

    A call is given out once it is complete, since until then it may turn out to be none:
    what is malformed comes back as text, never as an exception. White space beside a call is
    kept only between two texts. `tools`, as in OpenAI's API, give the types of arguments that
    a format writes as bare text, and where a call has no marker (Llama) the names that make
    an object a call.
    """

    def __init__(self, parser: "ToolParser", tools: Tools | None = None) -> None:
        self._forms = parser.forms
        self._silent = parser.silent
        self._markers = tuple(form.start for form in parser.forms) + parser.silent
        self._between = parser.between
        self._tools = tools
        self._buffer = ""
        self._waiting: Form | None = None
        """What the buffer begins with, and is not over yet."""
        self._space = ""
        self._before = ""
        """The space between the latest text and the calls after it."""
        self._calls: list[ToolCall] = []
        self._wrote = False
        self._beside = False
        """The latest that came was no text."""
        self._closed = False

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far."""
        return tuple(self._calls)

    def feed(self, text: str) -> list[ToolCallEvent]:
        """Take a piece of text, and return what it settles."""
        if self._closed:
            raise ValueError("the stream of tool calls is closed: make a new one")
        seen = len(self._buffer)
        self._buffer += text
        if self._waiting is not None and seen > SHORT:
            ends = self._waiting.ends
            fresh = seen + 1 - max(map(len, ends))
            if all(self._buffer.find(end, fresh) < 0 for end in ends):
                return []
        events: list[ToolCallEvent] = []
        self._advance(events, final=False)
        return joined(events)

    def close(self) -> list[ToolCallEvent]:
        """Return what was held back; no text follows."""
        if self._closed:
            return []
        events: list[ToolCallEvent] = []
        self._advance(events, final=True)
        if self._space and not self._beside:
            events.append(TextDelta(self._space))
        self._space, self._closed = "", True
        return joined(events)

    def _advance(self, events: list[ToolCallEvent], final: bool) -> None:
        at = 0  # of the buffer, up to here it is done
        text = self._buffer
        self._waiting = None
        while at < len(text):
            found = self._next_marker(text, at)
            if found is None:
                end = len(text) if final else len(text) - begun(text[at:], self._markers)
                self._text(events, text[at:end])
                at = end
                break
            place, marker, form = found
            self._text(events, text[at:place])
            at = place
            if form is None:
                at += len(marker)
                continue
            try:
                if form.beginning and self._wrote:
                    raise ToolCallError("a call without a marker comes first")
                read = form.read(text[at:], final, self._tools)
            except ToolCallError:
                self._text(events, marker)
                at += len(marker)
                continue
            if read is None:
                self._waiting = form
                break
            self._add(events, read.calls)
            at += read.consumed
        self._buffer = text[at:]

    def _next_marker(self, text: str, start: int) -> tuple[int, str, Form | None] | None:
        """Return the first marker: its place, and its form unless it is a silent one."""
        found: list[tuple[int, str, Form | None]] = []
        for form in self._forms:
            if (place := text.find(form.start, start)) >= 0:
                found.append((place, form.start, form))
        for marker in self._silent:
            if (place := text.find(marker, start)) >= 0:
                found.append((place, marker, None))
        return min(found, key=lambda item: item[0], default=None)

    def _text(self, events: list[ToolCallEvent], text: str) -> None:
        text = self._space + text
        if self._beside:
            rest = text.lstrip()
            if self._calls and rest.startswith(self._between):
                rest = rest[len(self._between) :].lstrip()
            if not rest:
                self._space = text
                return
            space = self._before or text[: len(text) - len(rest)]
            text = space + rest if self._wrote else rest
        shown = text.rstrip()
        self._space = text[len(shown) :]
        if shown:
            events.append(TextDelta(shown))
            self._wrote, self._beside = True, False

    def _add(self, events: list[ToolCallEvent], calls: tuple[ToolCall, ...]) -> None:
        """Take calls, or the header of a message where there are none."""
        if not self._beside:
            self._before = self._space or ("" if calls else PARAGRAPH)
        self._space, self._beside = "", True
        for call in calls:
            index = len(self._calls)
            self._calls.append(call)
            events.append(ToolCallBegin(index, call.name, call.id))
            events.append(ArgumentsDelta(index, call.arguments_json))


def read_tool_calls(text: str, parser: "ToolParser", tools: Tools | None = None) -> ToolCallText:
    """Return the text and the tool calls of a whole answer; see `ToolCallStream`."""
    stream = ToolCallStream(parser, tools)
    events = stream.feed(text) + stream.close()
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    return ToolCallText(shown, stream.calls)
