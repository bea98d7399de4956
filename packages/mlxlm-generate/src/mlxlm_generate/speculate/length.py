"""How many tokens to guess, from what was accepted and what it took."""

from mlxlm_generate.errors import InvalidOption

_KEEP = 0.9  # of a mean's weight, at each step
_PLAIN_FIRST = 2  # tokens that measure decoding without speculation
_TRIAL = 4  # speculative steps before they are judged
_FIRST_PAUSE, _LONGEST_PAUSE = 16, 512  # steps


class _Pace:
    """Seconds for each token, a mean in which the past fades."""

    def __init__(self) -> None:
        self.steps = 0
        self._seconds = self._tokens = 0.0

    def add(self, seconds: float, tokens: float) -> None:
        self.steps += 1
        self._seconds = _KEEP * self._seconds + seconds
        self._tokens = _KEEP * self._tokens + tokens

    def wait(self, seconds: float) -> None:
        """Add time that belongs to the step before."""
        self._seconds += seconds

    @property
    def value(self) -> float:
        return self._seconds / self._tokens


class DraftLength:
    """The number of tokens to guess next, `longest` at most; 0 is a plain step.

    One more after a guess that was accepted whole, else one more than was accepted.
    Where speculation takes more time for each token than plain steps do, it pauses; each
    pause without a gain is twice the one before. Give one object to several generations
    of a model, one at a time, and what it learned lasts. Raises InvalidOption for
    `longest` < 1.
    """

    def __init__(self, longest: int) -> None:
        if longest < 1:
            raise InvalidOption(f"longest={longest}: give 1 or more tokens to guess.")
        self.longest = self._length = longest
        self._plain, self._speculative = _Pace(), _Pace()
        self._pause, self._paused = _FIRST_PAUSE, 0

    def next(self) -> int:
        """Return how many tokens to guess for the step that comes."""
        measured = self._plain.steps >= _PLAIN_FIRST
        return self._length if measured and not self._paused else 0

    def plain(self, seconds: float) -> None:
        """Learn from a step without speculation that took `seconds`."""
        self._plain.add(seconds, 1)
        self._paused = max(0, self._paused - 1)

    def waited(self, seconds: float) -> None:
        """Learn that a plain step took `seconds` more."""
        self._plain.wait(seconds)

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
        self._speculative.add(seconds, accepted + 1 if settled is None else settled)
        if self._speculative.steps < _TRIAL or self._plain.steps == 0:
            return
        if self._speculative.value > self._plain.value:
            self._paused = self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._speculative = _Pace()
        else:
            self._pause = _FIRST_PAUSE
