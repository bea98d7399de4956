"""Pieces of streamed text."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

PARAGRAPH = "\n\n"
"""Between what was apart only by markers."""

Event = TypeVar("Event")


@dataclass(frozen=True)
class TextDelta:
    """Text for the reader."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """Text of the model's reasoning."""

    text: str


def joined(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring pieces of the same kind."""
    done: list[Event] = []
    for event in events:
        last = done[-1] if done else None
        if isinstance(event, TextDelta | ReasoningDelta) and type(last) is type(event):
            done[-1] = replace(event, text=last.text + event.text)
        else:
            done.append(event)
    return done


def begun(text: str, markers: Iterable[str]) -> int:
    """Return how many characters at the end of a text may be the beginning of a marker."""
    markers = tuple(markers)
    longest = max((len(marker) for marker in markers), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        tail = text[len(text) - size :]
        if any(marker.startswith(tail) for marker in markers):
            return size
    return 0
