"""A request under way, as the event loop sees it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from mlxlm_generate import Request, TokenResponse

from mlxlm_server.errors import ApiError


@dataclass(frozen=True, slots=True)
class Started:
    """An answer's prompt was taken up; `cached` of its tokens need not be computed."""

    cached: int


@dataclass(frozen=True, slots=True)
class Progress:
    """So many tokens of the prompt have been processed."""

    done: int


@dataclass(frozen=True, slots=True)
class Computed:
    """What a piece of work has returned."""

    value: Any


Event = Started | Progress | TokenResponse | Computed | ApiError

Work = Callable[[Any], Generator[None, int, Any]]
"""From the model to what is computed in its thread beside the answers.

Begins with an empty piece; then each `send` of how many tokens may be computed does a piece,
and one is done between two steps of the engine.
"""


@dataclass(eq=False)
class Ticket:
    """The answers, or works, that one HTTP request waits for: one for each of `requests`.

    `events` yields (index of the answer, event). An answer's last event is a TokenResponse
    with a finish_reason, a work's is a Computed, that of either may be an ApiError. `boundary`
    is how many tokens of each prompt others will share, where that is known.
    """

    id: str
    requests: Sequence[Request | Work]
    boundary: int | None = None
    created: float = field(default_factory=monotonic)
    uids: dict[int, int] = field(default_factory=dict)
    """The engine's number of each answer that runs; for the engine's thread alone."""

    def __post_init__(self) -> None:
        self._queue: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._open = set(range(len(self.requests)))

    @property
    def open(self) -> bool:
        """Whether there is more to come."""
        return bool(self._open)

    def put(self, index: int, event: Event) -> None:
        """Add an event; those after an answer's last one are dropped."""
        if index not in self._open:
            return
        if isinstance(event, ApiError | Computed) or (
            isinstance(event, TokenResponse) and event.finish_reason is not None
        ):
            self._open.discard(index)
        self._queue.put_nowait((index, event))

    def fail(self, error: ApiError) -> None:
        """End every answer that is still open."""
        for index in sorted(self._open):
            self.put(index, error)

    async def events(self) -> AsyncIterator[tuple[int, Event]]:
        while self.open or not self._queue.empty():
            yield await self._queue.get()
