"""Guesses without a model: what followed the same words the last time."""

from collections.abc import Sequence

from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.speculate.drafter import Drafter, Draw


class NGramDrafter(Drafter):
    """Copies what followed the latest earlier occurrence of the last tokens.

    The longest of the n-grams from `longest` down to `shortest` tokens that occurred
    before is taken (prompt look-up decoding, Saxena 2023). A copy that reaches the end
    goes on with itself, so that a period repeats. Each token costs the same, however long
    the text. Raises InvalidOption unless 1 <= shortest <= longest.
    """

    def __init__(self, longest: int = 3, shortest: int = 2) -> None:
        if not 1 <= shortest <= longest:
            raise InvalidOption(
                f"longest={longest}, shortest={shortest}: give n-gram sizes of 1 or more, "
                "the longest first."
            )
        self._sizes = range(longest, shortest - 1, -1)
        self._tokens: list[int] = []
        self._followed: dict[tuple[int, ...], int] = {}  # n-gram to where what followed is

    def extend(self, tokens: Sequence[int], /) -> None:
        """Append tokens that are settled."""
        for token in tokens:
            end = len(self._tokens)
            # Entered only once something follows, the last n-gram never finds itself.
            for size in self._sizes:
                if size <= end:
                    self._followed[tuple(self._tokens[end - size :])] = end
            self._tokens.append(int(token))

    def ready(self) -> bool:
        return self._start() is not None

    def propose(self, limit: int, draw: Draw | None = None, /) -> list[int]:
        """Return `limit` tokens, or none where the last tokens are new."""
        start, end = self._start(), len(self._tokens)
        if start is None:
            return []
        return [self._tokens[start + i % (end - start)] for i in range(limit)]

    def _start(self) -> int | None:
        """Return the place of what followed the last tokens before."""
        end = len(self._tokens)
        for size in self._sizes:
            start = self._followed.get(tuple(self._tokens[-size:])) if size <= end else None
            if start is not None:
                return start
        return None
