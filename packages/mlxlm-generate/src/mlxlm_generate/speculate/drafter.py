"""What guesses the tokens that come next."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from mlxlm_generate.speculate.length import DraftLength

Guesses = Sequence[int] | mx.array
"""Tokens in their order; an array (n,) may be lazy."""

Draw = Callable[[mx.array], mx.array]
"""Logits (1, V), those of another vocabulary size too, to the token id (1,) of the next place.

It chooses as the target will at that place, with the same random key: one call for each
guess, in their order. Guesses drawn so agree with the target as often as two draws from
the two distributions well can.
"""


class Drafter(ABC):
    """Guesses what follows one sequence of tokens; a fresh one for each generation."""

    @abstractmethod
    def extend(self, tokens: Sequence[int], /) -> None:
        """Append tokens that are settled: first the prompt, then what was generated."""

    @abstractmethod
    def propose(self, limit: int, draw: Draw, /) -> Guesses:
        """Return at most `limit` tokens for what follows; none where there is no guess."""

    def ready(self) -> bool:
        """Tell, at once, whether a guess is likely; until it is, no step waits for one."""
        return True

    def may_need(self, tokens: int, /) -> int:
        """Return how many bytes it may come to hold for a sequence of so many tokens."""
        return 0

    def finish(self, tokens: int, /) -> None:  # noqa: B027 - most have nothing to end
        """Hear that the sequence ends with its first `tokens`, some of which may be taken back."""


@dataclass
class Speculation:
    """Who guesses, how much, and how it went.

    `drafted` counts guesses, `accepted` those that became tokens of the answer.
    """

    drafter: Drafter
    length: DraftLength
    drafted: int = 0
    accepted: int = 0
