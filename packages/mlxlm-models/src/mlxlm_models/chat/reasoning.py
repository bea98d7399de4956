"""Reasoning out of streamed text, wherever the pieces are cut."""

from collections.abc import Sequence
from dataclasses import dataclass

from .deltas import PARAGRAPH, ReasoningDelta, TextDelta, begun, joined
from .thinking import Thinking

ReasoningEvent = TextDelta | ReasoningDelta


@dataclass(frozen=True)
class ReasoningText:
    """An answer: what the model thought, and what it says."""

    reasoning: str
    text: str


class ReasoningStream:
    """Parts streamed text into reasoning and text for the reader, however the text is cut.

    `opened`: the prompt began the reasoning already; see `Thinking.opened_by`. Otherwise it
    begins with its start marker, before any other text (channels: anywhere). An answer that
    breaks off within it has no text. `until` are markers, such as a tool call's, that end
    reasoning without being part of it: models forget to close it before they call. Markers,
    and white space beside them, are dropped; between two blocks, or two texts, is a blank line.
    """

    def __init__(
        self, thinking: Thinking, *, opened: bool = False, until: Sequence[str] = ()
    ) -> None:
        self._start, self._end = thinking.start, thinking.end
        self._again = thinking.again
        self._until = tuple(marker for marker in until if marker)
        self.thinking = opened
        """What comes next is reasoning, as far as is known."""
        self._buffer = ""
        self._space = ""
        self._bare = opened
        """No text has come since the latest marker."""
        self._wrote = False
        self._reasoned = False
        self._closed = False

    def feed(self, text: str) -> list[ReasoningEvent]:
        """Take a piece of text, and return what it settles."""
        if self._closed:
            raise ValueError("the stream of reasoning is closed: make a new one")
        self._buffer += text
        return self._advance(final=False)

    def close(self) -> list[ReasoningEvent]:
        """Return what was held back; no text follows."""
        if self._closed:
            return []
        events = self._advance(final=True)
        if self._space and not self.thinking and not self._bare:
            events.append(TextDelta(self._space))
        self._space, self._closed = "", True
        return joined(events)

    def _advance(self, final: bool) -> list[ReasoningEvent]:
        events: list[ReasoningEvent] = []
        while self._buffer:
            markers = self._markers()
            text = self._buffer
            found = [(place, m) for m in markers if (place := text.find(m)) >= 0]
            place, marker = min(found, key=lambda item: item[0], default=(-1, ""))
            if not marker:
                place = len(text) if final else len(text) - begun(text, markers)
            starts = not self.thinking
            self._give(events, text[:place])
            self._buffer = text[place:]
            if not marker:
                break
            if starts and not self._may_start():
                self._give(events, marker)
                self._buffer = self._buffer[len(marker) :]
            else:
                self._cross(marker)
        return joined(events)

    def _markers(self) -> tuple[str, ...]:
        if self.thinking:
            return (self._end, *self._until)
        return (self._start,) if self._may_start() else ()

    def _may_start(self) -> bool:
        return self._again or not self._wrote

    def _cross(self, marker: str) -> None:
        if marker not in self._until:
            self._buffer = self._buffer[len(marker) :]
        self.thinking = not self.thinking
        self._space, self._bare = "", True

    def _give(self, events: list[ReasoningEvent], text: str) -> None:
        text = self._space + text
        if self._bare:
            text = text.lstrip()
        shown = text.rstrip()
        self._space = text[len(shown) :]
        if not shown:
            return
        again = self._reasoned if self.thinking else self._wrote
        if self._bare and again:
            shown = PARAGRAPH + shown
        if self.thinking:
            events.append(ReasoningDelta(shown))
            self._reasoned = True
        else:
            events.append(TextDelta(shown))
            self._wrote = True
        self._bare = False


def read_reasoning(
    text: str, thinking: Thinking, *, opened: bool = False, until: Sequence[str] = ()
) -> ReasoningText:
    """Return the reasoning and the text of a whole answer; see `ReasoningStream`."""
    stream = ReasoningStream(thinking, opened=opened, until=until)
    events = stream.feed(text) + stream.close()
    return ReasoningText(
        "".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        "".join(event.text for event in events if isinstance(event, TextDelta)),
    )
