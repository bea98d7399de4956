"""A model that thinks first, and then gives an answer of its grammar."""

from typing import Literal
from weakref import WeakKeyDictionary

import mlx.core as mx
from mlxlm_models import ReasoningBudget, Thinking

from mlxlm_server.structured.compiled import GrammarConstraint, Vocabulary

Owner = Literal["reasoning", "blank", "answer"]


class Thoughts:
    """Which tokens may be thought, and which ones part thoughts from an answer."""

    def __init__(self, vocabulary: Vocabulary, thinking: Thinking) -> None:
        import numpy as np

        end = thinking.end.encode()
        self.allowed = np.ones(vocabulary.size, dtype=np.bool_)
        """Not what ends the whole answer, nor what closes the reasoning and says more."""
        self.allowed[sorted(vocabulary.eos)] = False
        self.blanks: set[int] = set()
        for token, text in enumerate(vocabulary.texts):
            if text in (b"\n", b"\n\n"):
                self.blanks.add(token)
            if text != end and _closes_with_more(text, end):
                self.allowed[token] = False


def _closes_with_more(text: bytes, end: bytes) -> bool:
    """Whether a token has the last of a marker in it, and more than white space after that."""
    for size in range(min(len(end), len(text) - 1), 0, -1):
        if text.startswith(end[-size:]) and text[size:].strip():
            return True
    return bool(text.partition(end)[2].strip())


_KNOWN: WeakKeyDictionary[Vocabulary, Thoughts] = WeakKeyDictionary()


def thoughts_of(vocabulary: Vocabulary, thinking: Thinking) -> Thoughts:
    """Return them, looked for once."""
    known = _KNOWN.get(vocabulary)
    if known is None:
        known = _KNOWN[vocabulary] = Thoughts(vocabulary, thinking)
    return known


class ThinkThenAnswer:
    """Follows one answer: reasoning, where it begins, has no form, and what comes next has.

    A line break or two may come in between, as models write it there. An answer can't end
    within its reasoning.
    """

    def __init__(
        self, budget: ReasoningBudget, answer: GrammarConstraint, thoughts: Thoughts
    ) -> None:
        self._budget, self._answer, self._thoughts = budget, answer, thoughts
        self._owners: list[Owner] = []
        """Who took each token, to give it back to."""

    def mask(self) -> mx.array | None:
        """Return which tokens may come next, bool (V,)."""
        budget = self._budget
        if self._reasons:
            return mx.array(self._thoughts.allowed) if budget.forced is None else budget.mask()
        begins = self._begins
        if begins is not None and self._owners:  # within the start marker
            return mx.arange(begins + 1) == begins
        allowed = self._answer.allowed()
        others = sorted(self._thoughts.blanks) if self._may_be_blank else []
        if begins is not None:
            others.append(begins)
        if others:
            allowed = allowed.copy()
            allowed[others] = True
        return mx.array(allowed)

    def advance(self, token: int, /) -> None:
        """Take note of a token; GrammarError for one that may not come."""
        owner = self._owner(token)
        self._owners.append(owner)
        if owner == "reasoning":
            self._budget.advance(token)
        elif owner == "answer":
            self._answer.advance(token)

    def rollback(self, n: int, /) -> None:
        """Forget the latest `n` tokens."""
        kept = len(self._owners) - n
        gone, self._owners = self._owners[kept:], self._owners[:kept]
        if thought := gone.count("reasoning"):
            self._budget.rollback(thought)
        if said := gone.count("answer"):
            self._answer.rollback(said)

    @property
    def _reasons(self) -> bool:
        return self._budget.thinking or (self._budget.forced is not None and not self._answering)

    @property
    def _answering(self) -> bool:
        return bool(self._owners) and self._owners[-1] == "answer"

    @property
    def _begins(self) -> int | None:
        """The token with which reasoning begins, or its marker goes on."""
        return None if self._answering else self._budget.beginning

    @property
    def _may_be_blank(self) -> bool:
        """Right after the reasoning, for two tokens."""
        thought = "reasoning" in self._owners[-2:] and not self._answering
        return thought and self._begins is None

    def _owner(self, token: int) -> Owner:
        if self._reasons:
            return "reasoning"
        if token == self._begins and (self._owners or not self._answer.allowed()[token]):
            return "reasoning"
        blank = self._may_be_blank and token in self._thoughts.blanks
        return "blank" if blank and not self._answer.allowed()[token] else "answer"
