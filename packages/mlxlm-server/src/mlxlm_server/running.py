"""One HTTP request's way through the engine, with its times and its end."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

from mlxlm_generate import TokenResponse
from starlette.requests import Request as HttpRequest

from mlxlm_server.answer import Answer, Piece
from mlxlm_server.engine.ticket import Started, Ticket
from mlxlm_server.errors import ApiError, unavailable
from mlxlm_server.pool import Loaded
from mlxlm_server.requestlog import arrival
from mlxlm_server.sse import left

Result = TypeVar("Result")


@dataclass
class Timing:
    """Seconds from the request's arrival, and what they were spent on."""

    arrived: float = field(default_factory=arrival)
    started: float | None = None
    first: float | None = None
    ended: float | None = None


@dataclass(eq=False)
class Run:
    """Answers under way: iterate over `pieces`, once.

    Yields (index, answer, pieces, response). An ApiError is raised where the answers fail.
    However the iteration ends, what is still under way is cancelled.
    """

    id: str
    loaded: Loaded
    answers: list[Answer]
    ticket: Ticket
    prompt_tokens: int
    per_prompt: int
    timeout: float | None
    on_end: Callable[["Run", str], None]
    timing: Timing = field(default_factory=Timing)
    _cached: dict[int, int] = field(default_factory=dict)

    @property
    def cached(self) -> int:
        """Tokens of the prompts that were not computed."""
        return sum(self._cached.values())

    @property
    def completion_tokens(self) -> int:
        return sum(answer.tokens for answer in self.answers)

    async def pieces(self) -> AsyncGenerator[tuple[int, Answer, list[Piece], TokenResponse]]:
        outcome = "cancelled"
        expiry = None
        if self.timeout is not None:
            expiry = asyncio.get_running_loop().call_later(self.timeout, self._expire)
        try:
            self.loaded.engine.submit(self.ticket)
            async for index, event in self.ticket.events():
                if isinstance(event, ApiError):
                    raise event
                if isinstance(event, Started):
                    self.timing.started = self.timing.started or monotonic()
                    prompt = index // self.per_prompt
                    self._cached[prompt] = max(self._cached.get(prompt, 0), event.cached)
                elif isinstance(event, TokenResponse):
                    self.timing.first = self.timing.first or monotonic()
                    answer = self.answers[index]
                    yield index, answer, answer.feed(event), event
            outcome = ",".join(str(answer.finish_reason) for answer in self.answers)
        except ApiError as error:
            outcome = error.code or f"error {error.status}"
            raise
        finally:
            if expiry is not None:
                expiry.cancel()
            self.timing.ended = monotonic()
            self.loaded.engine.cancel(self.ticket)
            self.on_end(self, outcome)

    def _expire(self) -> None:
        message = f"The request took longer than the limit (--request-timeout), {self.timeout} s."
        self.ticket.fail(unavailable(message, "timeout"))
        self.loaded.engine.cancel(self.ticket)


def usage(run: Run) -> dict[str, Any]:
    """Return OpenAI's usage object."""
    completion = run.completion_tokens
    reasoning = sum(answer.reasoning_tokens for answer in run.answers)
    return {
        "prompt_tokens": run.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": run.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": run.cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


async def unless_left(http: HttpRequest, work: Awaitable[Result]) -> Result:
    """Await `work`, and cancel it when the client goes away (R38)."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(left(http))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ApiError(499, "The client went away.", code="cancelled")
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
