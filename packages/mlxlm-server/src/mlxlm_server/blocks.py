"""An answer as a row of blocks: reasoning, text and tool calls, in the order in which they came."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from mlxlm_models import ArgumentsDelta, ReasoningDelta, TextDelta, ToolCallBegin

from mlxlm_server.answer import Piece

Kind = Literal["reasoning", "text", "call"]


@dataclass
class Block:
    """`text` is that of the reasoning, the answer, or the JSON of the call's arguments."""

    kind: Kind
    index: int
    text: str = ""
    name: str = ""
    id: str = ""


@dataclass(frozen=True)
class Began:
    block: Block


@dataclass(frozen=True)
class Grew:
    block: Block
    text: str


@dataclass(frozen=True)
class Ended:
    block: Block


Change = Began | Grew | Ended


class Blocks:
    """Follows the pieces of one answer. What `feed` and `close` tell makes up `done`."""

    def __init__(self) -> None:
        self.done: list[Block] = []
        self._open: Block | None = None

    def feed(self, pieces: Iterable[Piece]) -> Iterator[Change]:
        for piece in pieces:
            if isinstance(piece, ToolCallBegin):
                yield from self._begin("call", piece.name, piece.id or "")
                continue
            kind, text = _read(piece)
            if self._open is None or self._open.kind != kind:
                yield from self._begin(kind)
            assert self._open is not None
            self._open.text += text
            yield Grew(self._open, text)

    def close(self) -> Iterator[Change]:
        """End the last block."""
        if self._open is not None:
            block, self._open = self._open, None
            yield Ended(block)

    def _begin(self, kind: Kind, name: str = "", id: str = "") -> Iterator[Change]:
        yield from self.close()
        self._open = Block(kind, len(self.done), name=name, id=id)
        self.done.append(self._open)
        yield Began(self._open)


def _read(piece: TextDelta | ReasoningDelta | ArgumentsDelta) -> tuple[Kind, str]:
    if isinstance(piece, ArgumentsDelta):
        return "call", piece.json
    return ("text" if isinstance(piece, TextDelta) else "reasoning"), piece.text
