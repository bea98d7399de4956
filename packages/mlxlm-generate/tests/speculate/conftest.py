"""Drafters and lengths that a test can rely on."""

from collections.abc import Sequence

import pytest
from mlxlm_generate import Drafter, DraftLength, Draw


class Always(DraftLength):
    """Guesses as many each time, whatever it takes."""

    def next(self) -> int:
        return self.longest


class Knowing(Drafter):
    """Guesses an answer that it was told, wrong at some places, not at all at others."""

    def __init__(
        self, prompt: int, answer: Sequence[int], wrong: int = 3, silent: int | None = None
    ) -> None:
        self.answer, self.wrong, self.silent = answer, wrong, silent
        self.seen = -prompt
        self.ended: int | None = None

    def extend(self, tokens: Sequence[int], /) -> None:
        self.seen += len(tokens)

    def ready(self) -> bool:
        return self.silent is None or self.seen % self.silent != 0

    def propose(self, limit: int, draw: Draw, /) -> list[int]:
        places = range(self.seen, min(self.seen + limit, len(self.answer)))
        return [self.answer[i] + ((i + 1) % self.wrong == 0) for i in places]

    def finish(self, tokens: int, /) -> None:
        self.ended = tokens


@pytest.fixture(scope="session")
def always() -> type[Always]:
    return Always


@pytest.fixture(scope="session")
def knowing() -> type[Knowing]:
    return Knowing
