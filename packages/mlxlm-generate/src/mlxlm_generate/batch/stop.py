"""Where an answer ends: at a sequence of tokens, or at a piece of text."""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.protocols import BareTokenizer
from mlxlm_generate.tokenizer import streaming_detokenizer

Match = tuple[int, ...] | str
"""What an answer ended at: token ids, or text."""


@runtime_checkable
class StopState(Protocol):
    """Follows one request."""

    def advance(self, token: int, /) -> Match | None:
        """Take note of a token; return what ends the answer with it, or None."""
        ...


@runtime_checkable
class StopMatcher(Protocol):
    """Says where requests end. One matcher serves any number of them."""

    def start(self) -> StopState:
        """Return what follows one more request, from its first token."""
        ...


class Automaton:
    """Finds any of several sequences in a stream of items (Aho and Corasick, 1975)."""

    def __init__(self, sequences: Sequence[Sequence[Hashable]]) -> None:
        self.sequences = [tuple(sequence) for sequence in sequences]
        self._next: list[dict[Hashable, int]] = [{}]
        self._depth = [0]
        self._found: list[int | None] = [None]  # the longest sequence that ends here
        for index, sequence in enumerate(self.sequences):
            self._add(index, sequence)
        self._fall = [0] * len(self._next)
        self._link()

    def _add(self, index: int, sequence: tuple[Hashable, ...]) -> None:
        state = 0
        for item in sequence:
            if item not in self._next[state]:
                self._next[state][item] = len(self._next)
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._found.append(None)
            state = self._next[state][item]
        self._found[state] = index if self._found[state] is None else self._found[state]

    def _link(self) -> None:
        todo = deque(self._next[0].values())
        while todo:
            state = todo.popleft()
            for item, child in self._next[state].items():
                self._fall[child] = self.step(self._fall[state], item)
                todo.append(child)
            if self._found[state] is None:
                self._found[state] = self._found[self._fall[state]]

    def step(self, state: int, item: Hashable) -> int:
        """Return the state after one more item; 0 is the state of having seen nothing."""
        while item not in self._next[state]:
            if state == 0:
                return 0
            state = self._fall[state]
        return self._next[state][item]

    def found(self, state: int) -> int | None:
        """Return the longest sequence that ends here, by its index."""
        return self._found[state]

    def begun(self, state: int) -> int:
        """Return how many of the latest items may be the beginning of a sequence."""
        return self._depth[state]


class StopSequenceMatcher:
    """Ends an answer with the token that completes one of `sequences` of token ids."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        for sequence in sequences:
            if len(sequence) == 0 or any(isinstance(token, str) for token in sequence):
                raise InvalidOption(
                    f"A stop sequence is one or more token ids, not {sequence!r}: use "
                    "StopStringMatcher for text."
                )
        self.automaton = Automaton([[int(token) for token in s] for s in sequences])

    def start(self) -> "StopSequenceState":
        return StopSequenceState(self.automaton)


class StopSequenceState:
    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._state = 0

    def advance(self, token: int, /) -> Match | None:
        self._state = self._automaton.step(self._state, token)
        index = self._automaton.found(self._state)
        return None if index is None else tuple(map(_token, self._automaton.sequences[index]))


class StopStringMatcher:
    """Ends an answer once its text contains one of `stops`, however that is tokenized."""

    def __init__(self, stops: Sequence[str], tokenizer: BareTokenizer) -> None:
        self.automaton = text_automaton(stops)
        self._tokenizer = tokenizer

    def start(self) -> "StopStringState":
        return StopStringState(self.automaton, self._tokenizer)


class StopStringState:
    def __init__(self, automaton: Automaton, tokenizer: BareTokenizer) -> None:
        self._detokenizer = streaming_detokenizer(tokenizer)
        self._automaton = automaton
        self._state = 0

    def advance(self, token: int, /) -> Match | None:
        """Return the first stop that the token's text completes; those before don't count."""
        self._detokenizer.add_token(token)
        match: str | None = None
        for character in self._detokenizer.last_segment:
            self._state = self._automaton.step(self._state, character)
            index = self._automaton.found(self._state)
            if index is not None and match is None:
                match = "".join(map(str, self._automaton.sequences[index]))
        return match


class StopText:
    """Streamed text up to the first stop that is completed, the longest of several.

    Text that may be the beginning of a stop is held back until that is known.
    """

    def __init__(self, stops: Automaton | Sequence[str]) -> None:
        self._automaton = stops if isinstance(stops, Automaton) else text_automaton(stops)
        self._state = 0
        self._held = ""
        self.match: str | None = None

    def add(self, text: str) -> str:
        """Take a piece of text, and return what can be given out: "" after a match."""
        if self.match is not None:
            return ""
        given = self._held + text
        seen = len(self._held)
        for place, character in enumerate(text, seen + 1):
            self._state = self._automaton.step(self._state, character)
            index = self._automaton.found(self._state)
            if index is not None:
                self.match = "".join(map(str, self._automaton.sequences[index]))
                self._held = ""
                return given[: place - len(self.match)]
        begun = self._automaton.begun(self._state)
        self._held = given[len(given) - begun :]
        return given[: len(given) - begun]

    def finish(self) -> str:
        """Return what was held back; no text follows."""
        held, self._held, self._state = self._held, "", 0
        return held


def text_automaton(stops: Sequence[str]) -> Automaton:
    if isinstance(stops, str) or not all(isinstance(s, str) and s for s in stops):
        raise InvalidOption(f"Stops are a list of strings, none of them empty, not {stops!r}.")
    return Automaton(stops)


def _token(item: Hashable) -> int:
    assert isinstance(item, int)
    return item
