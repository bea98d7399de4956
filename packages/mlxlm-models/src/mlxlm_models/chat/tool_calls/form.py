"""Where a tool call begins and ends in a text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .call import ToolCall, ToolCallError, Tools

Body = Callable[[str, Tools | None], list[ToolCall]]
"""Reads what lies between the markers; ToolCallError where that is no call."""

_STRINGS = {
    '"': re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]++|\\.)*+'", re.DOTALL),
}
_BRACKETS = {
    "json": re.compile(r'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL),
    "python": re.compile(r'"(?:[^"\\]++|\\.)*+"|\'(?:[^\'\\]++|\\.)*+\'|["\'{}\[\]()]', re.DOTALL),
}
_OPENING = re.compile(r"[{\[]")
SHORT = 1024
_HEAD = 256
"""A value that begins later than this many characters after its marker is none."""
_PAIRS = {"}": "{", "]": "[", ")": "("}


@dataclass(frozen=True)
class Read:
    """`consumed` characters of the text were these calls, or a header without any."""

    calls: tuple[ToolCall, ...]
    consumed: int


@dataclass(frozen=True)
class Quote:
    """What end markers are not looked for in: between `open` and `close`.

    Without `close`, a string with backslashes that ends with the sign it began with.
    """

    open: str
    close: str | None = None

    def end(self, text: str, start: int) -> int:
        """Return where the quote that has begun before `start` is over, -1 if it is not."""
        if self.close is None:
            match = _STRINGS[self.open].match(text, start)
            return match.end() if match else -1
        at = text.find(self.close, start)
        return at + len(self.close) if at >= 0 else -1


IN_JSON = (Quote('"'),)
IN_PYTHON = (Quote('"'), Quote("'"))


@dataclass(frozen=True)
class Block:
    """A call between two markers. The end of the text ends it too, if it is complete."""

    start: str
    end: str
    body: Body
    quotes: tuple[Quote, ...] = ()
    beginning: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        return (self.end,)

    def read(self, text: str, final: bool, tools: Tools | None) -> Read | None:
        """Return what a text that begins with `start` says, None if that is not clear yet.

        `final`: no text follows. ToolCallError where it is no call.
        """
        end = self._find_end(text)
        if end >= 0:
            body, consumed = text[len(self.start) : end], end + len(self.end)
        elif final:
            body, consumed = text[len(self.start) :], len(text)
        else:
            return None
        return Read(tuple(self.body(body, tools)), consumed)

    def _find_end(self, text: str) -> int:
        markers = [self.end, *(quote.open for quote in self.quotes)]
        pattern = re.compile("|".join(f"({re.escape(marker)})" for marker in markers))
        at = len(self.start)
        while (match := pattern.search(text, at)) is not None:
            if match.lastindex == 1:
                return match.start()
            assert match.lastindex is not None
            at = self.quotes[match.lastindex - 2].end(text, match.end())
            if at < 0:
                return -1
        return -1


@dataclass(frozen=True)
class Value:
    """A call that is over where the brackets of its value are.

    `head` matches what comes between `start` and the value, with `words` in it that begin like
    a value; `keep_start`: the marker is part of the value. `beginning`: only where no other
    text came before.
    """

    start: str
    body: Body
    head: re.Pattern[str] = re.compile(r"\s*")
    words: tuple[str, ...] = ()
    dialect: str = "json"
    keep_start: bool = False
    beginning: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        return tuple(_PAIRS)

    def read(self, text: str, final: bool, tools: Tools | None) -> Read | None:
        """See `Block.read`."""
        begin = 0 if self.keep_start else len(self.start)
        opened = self._opening(text, begin, final)
        if opened is None:
            return None
        if not self.head.fullmatch(text, begin, opened):
            raise ToolCallError(f"no value after {self.start!r}")
        end = value_end(text, opened, self.dialect)
        if end is None:
            if final:
                raise ToolCallError("a tool call ends before its value does")
            return None
        return Read(tuple(self.body(text[begin:end], tools)), end)

    def _opening(self, text: str, begin: int, final: bool) -> int | None:
        """Return where the value begins, None if that may still come."""
        at = begin
        while (match := _OPENING.search(text, at)) is not None and match.start() < begin + _HEAD:
            opened = match.start()
            rest = text[opened:]
            word = next((word for word in self.words if rest.startswith(word)), None)
            if word is None:
                unclear = not final and any(word.startswith(rest) for word in self.words)
                return None if unclear else opened
            at = opened + len(word)
        if match is None and len(text) < begin + _HEAD and not final:
            return None
        raise ToolCallError(f"no value after {self.start!r}")


@dataclass(frozen=True)
class Either:
    """A marker after which the call is JSON or something else, as its first sign says."""

    json: Block
    other: Block

    @property
    def start(self) -> str:
        return self.json.start

    @property
    def beginning(self) -> bool:
        return self.json.beginning

    @property
    def ends(self) -> tuple[str, ...]:
        return (*self.json.ends, *self.other.ends)

    def read(self, text: str, final: bool, tools: Tools | None) -> Read | None:
        """See `Block.read`."""
        first = text[len(self.start) :].lstrip()[:1]
        if not first and not final:
            return None
        return (self.json if first in ("{", "[") else self.other).read(text, final, tools)


class Form(Protocol):
    """How a call is written, from its start marker on."""

    @property
    def start(self) -> str: ...

    @property
    def beginning(self) -> bool:
        """Only where no other text came before."""
        ...

    @property
    def ends(self) -> tuple[str, ...]:
        """A call of more than `SHORT` characters is over with one of these, if not with the text.

        Until one comes, reading it again tells nothing new.
        """
        ...

    def read(self, text: str, final: bool, tools: Tools | None, /) -> Read | None:
        """See `Block.read`."""
        ...


def value_end(text: str, start: int, dialect: str) -> int | None:
    """Return where the brackets that open at `start` are all closed, None if they aren't yet.

    ToolCallError where a bracket closes another kind.
    """
    opened: list[str] = []
    for match in _BRACKETS[dialect].finditer(text, start):
        sign = match.group()
        if sign in "\"'":  # a string that is not over
            return None
        if sign in "([{":
            opened.append(sign)
        elif sign in _PAIRS:
            if not opened or opened.pop() != _PAIRS[sign]:
                raise ToolCallError(f"a tool call's brackets don't match: {sign!r}")
            if not opened:
                return match.end()
    return None
