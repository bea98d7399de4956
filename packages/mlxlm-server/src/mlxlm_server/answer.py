"""From tokens to what a reader sees: text, reasoning, tool calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from mlxlm_generate import StopText, TokenResponse
from mlxlm_models import (
    ArgumentsDelta,
    ReasoningDelta,
    ReasoningStream,
    TextDelta,
    ToolCallBegin,
    ToolCallStream,
)

Piece = TextDelta | ReasoningDelta | ToolCallBegin | ArgumentsDelta


@dataclass(frozen=True)
class TokenRecord:
    """A token of the answer, with what was asked of its log-probability."""

    id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


@dataclass
class Calls:
    """The tool calls of an answer, as they come."""

    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


class Answer:
    """Follows one answer. `feed` returns the pieces that a token settles.

    `opened`: the prompt leaves off within reasoning. Tool calls are read where the request
    has `tools`; what is malformed stays text, and without `parallel` only the first is
    given out. `formed`: a grammar parts the reasoning, which no marker of a call then ends.
    Stops cut the whole text, reasoning included.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        stops: Sequence[str] = (),
        opened: bool = False,
        chat: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        parallel: bool = True,
        formed: bool = False,
    ) -> None:
        self._detokenizer = tokenizer.detokenizer
        self._stop = StopText(list(stops)) if stops else None
        thinking = tokenizer.thinking if chat else None
        parser = tokenizer.tool_parser if chat and tools else None
        until = () if parser is None or formed else tuple(form.start for form in parser.forms)
        self._reasoning = (
            None if thinking is None else ReasoningStream(thinking, opened=opened, until=until)
        )
        self._most_calls = None if parallel else 1
        self._tools = None if parser is None else ToolCallStream(parser, tools)
        self.text = ""
        self.reasoning = ""
        self.calls = Calls()
        self.tokens = 0
        self.reasoning_tokens = 0
        self.records: list[TokenRecord] = []
        self.told = 0
        """How many of the records a stream has given out."""
        self.finish_reason: str | None = None
        self.stop_text: str | None = None

    def feed(self, response: TokenResponse) -> list[Piece]:
        """Take the engine's response for the next token; the last one has a finish_reason."""
        pieces: list[Piece] = []
        by_text = isinstance(response.match, str)
        if response.token is not None and (response.finish_reason != "stop" or by_text):
            self.tokens += 1  # the token that ends an answer is no part of it
            if self._reasoning is not None and self._reasoning.thinking:
                self.reasoning_tokens += 1
            self._detokenizer.add_token(response.token)
            record = TokenRecord(response.token, response.logprob, response.top_logprobs or ())
            self.records.append(record)
            pieces += self._read(self._detokenizer.last_segment)
        if response.finish_reason is not None:
            self._detokenizer.finalize()
            pieces += self._read(self._detokenizer.last_segment, final=True)
            self.finish_reason = response.finish_reason
            if self.calls.names and response.finish_reason == "stop":
                self.finish_reason = "tool_calls"
            self.stop_text = response.match if isinstance(response.match, str) else None
        return self._noted(pieces)

    def _read(self, text: str, final: bool = False) -> list[Piece]:
        if self._stop is not None:
            text = self._stop.add(text) + (self._stop.finish() if final else "")
        pieces: list[Any] = [TextDelta(text)] if text else []
        if self._reasoning is not None:
            pieces = list(self._reasoning.feed(text))
            if final:
                pieces += self._reasoning.close()
        if self._tools is None:
            return pieces
        read: list[Piece] = []
        for piece in pieces:
            read += self._tools.feed(piece.text) if isinstance(piece, TextDelta) else [piece]
        return read + (list(self._tools.close()) if final else [])

    def _noted(self, pieces: list[Piece]) -> list[Piece]:
        noted: list[Piece] = []
        for piece in pieces:
            call = piece.index if isinstance(piece, ToolCallBegin | ArgumentsDelta) else None
            if call is not None and self._most_calls is not None and call >= self._most_calls:
                continue
            if isinstance(piece, ToolCallBegin):
                piece = ToolCallBegin(piece.index, piece.name, piece.id or f"call_{uuid4().hex}")
                self.calls.names.append(piece.name)
                self.calls.ids.append(str(piece.id))
                self.calls.arguments.append("")
            elif isinstance(piece, ArgumentsDelta):
                self.calls.arguments[piece.index] += piece.json
            elif isinstance(piece, ReasoningDelta):
                self.reasoning += piece.text
            else:
                self.text += piece.text
            noted.append(piece)
        return noted
