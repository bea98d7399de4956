"""Which part of an answer is reasoning, which a tool call, and which is meant for the reader."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxlm_generate.batch.stop import Automaton
from mlxlm_generate.errors import InvalidOption

PLAIN = "text"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text between two markers; `end` None lasts until the end of the text."""

    name: str
    start: str
    end: str | None

    def __post_init__(self) -> None:
        if not self.start or self.end == "" or self.name == PLAIN:
            raise InvalidOption(
                f"{self}: a span has markers that are not empty, and a name other than {PLAIN!r}."
            )


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of a text: `state` is the name of its span, or "text" outside of any.

    A span that is over without any text, or that ends where the stream does, gives no
    piece for that.
    """

    state: str
    text: str


class TextStateMachine:
    """Parts streamed text at the markers of spans, wherever the pieces are cut.

    Markers are not given out, and what may be the beginning of one is held back. Spans
    are not nested: inside of one only its end counts. `state` names the span that the
    text begins in, as when the prompt opened it already.
    """

    def __init__(self, spans: Sequence[TextSpan], state: str = PLAIN) -> None:
        self._spans = {span.name: span for span in spans}
        if len(self._spans) != len(spans) or len({s.start for s in spans}) != len(spans):
            raise InvalidOption("Two spans have the same name or start marker.")
        if state not in (PLAIN, *self._spans):
            raise InvalidOption(f"state={state!r} is none of {[PLAIN, *self._spans]}.")
        self._starts = list(spans)
        self._automata = {PLAIN: Automaton([span.start for span in spans])}
        for span in spans:
            self._automata[span.name] = Automaton([span.end] if span.end is not None else [])
        self.state = state
        self.entered = 0
        """How many spans have begun, apart from the one that the text begins in."""
        self._place = 0
        self._held = ""

    def add(self, text: str) -> list[TextPiece]:
        """Take a piece of text, and return what it settles."""
        pieces: list[TextPiece] = []
        for character in text:
            self._held += character
            automaton = self._automata[self.state]
            self._place = automaton.step(self._place, character)
            index = automaton.found(self._place)
            if index is not None:
                self._give(pieces, len(automaton.sequences[index]))
                self._held, self._place = "", 0
                self._cross(index)
        held = self._automata[self.state].begun(self._place)
        self._give(pieces, held)
        self._held = self._held[len(self._held) - held :]
        return pieces

    def finish(self) -> list[TextPiece]:
        """Return what was held back; no text follows."""
        pieces: list[TextPiece] = []
        self._give(pieces, 0)
        self._held, self._place = "", 0
        return pieces

    def _give(self, pieces: list[TextPiece], keep: int) -> None:
        text = self._held[: len(self._held) - keep]
        if text:
            pieces.append(TextPiece(self.state, text))

    def _cross(self, index: int) -> None:
        if self.state == PLAIN:
            self.state = self._starts[index].name
            self.entered += 1
        else:
            self.state = PLAIN
