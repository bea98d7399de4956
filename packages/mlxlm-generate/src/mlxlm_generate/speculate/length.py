"""How many tokens to guess, from what was accepted and what it took."""

from collections import deque
from statistics import median

from mlxlm_generate.errors import InvalidOption

_PLAIN_FIRST = 2  # tokens that measure decoding without speculation
_LATEST = 9  # plain steps whose median is the pace
_SHARE = 0.01  # of the time of plain steps: what guesses may lose
_FIRST, _MOST = 1.0, 4.0  # plain steps' time: what they may lose at first, and ever at once


class _Purse:
    """Seconds that may be lost; None before there is a pace to tell by."""

    seconds: float | None = None


class DraftLength:
    """The number of tokens to guess next, `longest` at most; 0 is a plain step.

    One at first, one more after a guess that was accepted whole, else one more than was
    accepted. Guesses may lose a hundredth of the time, and one plain step at first; what
    they gained before they may lose again, up to four steps. Once more than that is lost
    they pause until plain steps have earned it, so that a drafter that is never right
    costs little however long the answer is. Give one object to several generations of a
    model, one at a time, and what it learned lasts. `sharing` is one for batches of
    another size, with which it has in common what may be lost. Raises InvalidOption for
    `longest` < 1.
    """

    def __init__(self, longest: int, *, sharing: "DraftLength | None" = None) -> None:
        if longest < 1:
            raise InvalidOption(f"longest={longest}: give 1 or more tokens to guess.")
        self.longest = longest
        self._length = 1
        self._plain: deque[float] = deque(maxlen=_LATEST)
        self._purse: _Purse = _Purse() if sharing is None else sharing._purse

    def next(self) -> int:
        """Return how many tokens to guess for the step that comes."""
        if len(self._plain) < _PLAIN_FIRST:
            return 0
        return self._length if self._earn(0) >= 0 else 0

    def plain(self, seconds: float) -> None:
        """Learn from a step without speculation that took `seconds`."""
        self._plain.append(seconds)
        if len(self._plain) > _PLAIN_FIRST:
            self._earn(_SHARE * seconds)

    def waited(self, seconds: float) -> None:
        """Learn that the latest plain step took `seconds` more."""
        if self._plain:
            self._plain[-1] += seconds

    def checked(
        self, drafted: int, accepted: int, seconds: float, settled: float | None = None
    ) -> None:
        """Learn from a step that took `seconds`: it settled `accepted` guesses and one token.

        Where sequences share a step, the counts are of the one with the most, and `settled`
        is how many tokens each had on average.
        """
        if drafted:
            whole = accepted == drafted
            self._length = min(self.longest, (drafted if whole else accepted) + 1)
        if self._plain:
            # Bounded, because what else runs on the machine can make any step a long one.
            seconds = min(seconds, (drafted + _MOST) * self._pace)
            self._earn((accepted + 1 if settled is None else settled) * self._pace - seconds)

    @property
    def _pace(self) -> float:
        """Seconds of a plain step."""
        return median(self._plain)

    def _earn(self, seconds: float) -> float:
        """Return what may be lost from now on, below zero where it is too much already."""
        held = self._purse.seconds
        held = _FIRST * self._pace if held is None else held
        self._purse.seconds = min(held + seconds, _MOST * self._pace)
        return self._purse.seconds
