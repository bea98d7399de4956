"""The event loop's side of a model's thread."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from mlxlm_generate import BatchGenerator

from mlxlm_server.engine.memory import shares
from mlxlm_server.engine.prefixes import Prefixes
from mlxlm_server.engine.ticket import Computed, Ticket, Work
from mlxlm_server.engine.worker import Delivery, Worker
from mlxlm_server.errors import ApiError, unavailable
from mlxlm_server.settings import ServerSettings

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 30.0  # seconds before a thread that keeps dying is started once more


@dataclass
class EngineCounts:
    """What has happened so far."""

    restarts: int = 0
    stalls: int = 0
    delivered: int = 0


class Engine:
    """Runs tickets on one model, in a thread that is replaced when it dies or stalls.

    All methods belong to the event loop in which `start` was called. Whatever happens, every
    ticket gets an end to each of its answers (R31, R32). Prefixes outlive the thread, unless
    it was at them when it failed.
    """

    def __init__(
        self,
        model: Any,
        name: Any,
        settings: ServerSettings,
        *,
        stop_tokens: list[list[int]],
        make_generator: Callable[..., BatchGenerator] = BatchGenerator,
        draft: Any = None,
    ) -> None:
        self.settings = settings
        self.counts = EngineCounts()
        self.ready = asyncio.Event()
        self._model, self._name, self._draft = model, name, draft
        self._stop_tokens, self._make_generator = stop_tokens, make_generator
        self._tickets: set[Ticket] = set()
        self._generation = 0
        self._worker: Worker | None = None
        self._given_up: list[Worker] = []
        self._failures = 0
        self._failed = False
        self._last = monotonic()
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def under_way(self) -> int:
        """How many answers wait or run."""
        return sum(len(ticket.requests) for ticket in self._tickets)

    @property
    def healthy(self) -> bool:
        """False from when a thread has died or stalled until another one serves (R32)."""
        return not self._failed

    @property
    def hung_threads(self) -> int:
        """How many threads were given up as stalled and have not ended since."""
        self._given_up = [worker for worker in self._given_up if worker.thread.is_alive()]
        return len(self._given_up)

    async def start(self) -> None:
        """Start the thread, and wait until it serves. Raises what it meets before that."""
        self._loop = asyncio.get_running_loop()
        self._room = shares(self.settings)
        self._prefixes = Prefixes(self._name, self.settings, self._room.prefixes)
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._begin()
        try:
            await self._first
        except BaseException:
            await self.stop(0)
            raise
        self._keep(self._watch())

    async def stop(self, patience: float = 10.0) -> None:
        """End the thread after its step, and what still waits with an error."""
        if self._closed:
            return
        self._closed = True
        self.ready.clear()
        worker, self._worker = self._worker, None
        for task in self._tasks:
            task.cancel()
        self._fail_all(unavailable("The server is shutting down.", "shutting_down"))
        if worker is not None:
            worker.stop()
            await asyncio.to_thread(worker.thread.join, patience)
        if not await asyncio.to_thread(self._prefixes.close, patience):
            log.warning("not all prefixes were written to disk within %.0f s", patience)
        self._model = None  # whoever still holds the engine does not hold that

    def submit(self, ticket: Ticket) -> None:
        """Take a ticket; ApiError 429 where too many wait, 503 where the engine is down."""
        if self._closed or self._worker is None or not self.ready.is_set():
            raise unavailable("The engine is not ready; try again shortly.", "engine_not_ready")
        if self.under_way + len(ticket.requests) > self.settings.max_queue:
            raise ApiError(
                429,
                f"{self.under_way} requests are under way or wait, and the limit is "
                f"{self.settings.max_queue}: try again shortly.",
                code="queue_full",
                headers={"Retry-After": "1"},
            )
        if not self._tickets:
            self._last = monotonic()
        self._tickets.add(ticket)
        self._worker.submit(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Give up what is left of a ticket, within one step (R38). Once more does nothing."""
        if ticket not in self._tickets:
            return
        self._tickets.discard(ticket)
        if self._worker is not None:
            self._worker.cancel(ticket)
        ticket.fail(ApiError(499, "The request was cancelled.", code="cancelled"))

    async def compute(self, id: str, work: Work) -> Any:
        """Return what a work returns; it is given up when the caller is cancelled."""
        ticket = Ticket(id, [work])
        self.submit(ticket)
        try:
            async for _, event in ticket.events():
                if isinstance(event, ApiError):
                    raise event
                if isinstance(event, Computed):
                    return event.value
        finally:
            self.cancel(ticket)

    # The thread's life.

    def _begin(self) -> None:
        self._generation += 1
        self._last = monotonic()
        self._worker = Worker(
            self._model,
            self.settings,
            generation=self._generation,
            prefixes=self._prefixes.lend(),
            memory_budget=self._room.requests,
            stop_tokens=self._stop_tokens,
            deliver=self._from_thread,
            ended=self._thread_ended,
            make_generator=self._make_generator,
            draft=self._draft,
        )
        self._worker.start()

    def _from_thread(self, generation: int, events: Delivery) -> None:
        self._call(self._delivered, generation, events)

    def _thread_ended(self, generation: int, error: BaseException | None) -> None:
        self._call(self._ended, generation, error)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _delivered(self, generation: int, events: Delivery) -> None:
        if generation != self._generation or self._closed:
            return  # an abandoned thread woke up
        self._last = monotonic()
        self.ready.set()
        self._failed = False
        if not self._first.done():
            self._first.set_result(None)
        if events:
            self._failures = 0
        self.counts.delivered += len(events)
        for ticket, index, event in events:
            ticket.put(index, event)
            if not ticket.open:
                self._tickets.discard(ticket)

    def _ended(self, generation: int, error: BaseException | None) -> None:
        if generation != self._generation or self._closed:
            return
        if not self._first.done():
            self._first.set_exception(error or RuntimeError("the engine's thread ended"))
            return
        log.error("the engine's thread died", exc_info=error)
        self._replace("The engine failed while it worked on this request.", "engine_failed")

    def _replace(self, message: str, code: str) -> None:
        self.ready.clear()
        self._failed = True
        worker, self._worker = self._worker, None
        if worker is not None and not worker.prefixes.take_back():
            log.warning("prefixes in memory are lost: the thread was at them when it failed")
            lost = self._prefixes
            self._prefixes = Prefixes(self._name, self.settings, self._room.prefixes)
            lost.close(0)  # as soon as it can be
        self._generation += 1  # whatever the old thread still says is not heard
        self.counts.restarts += 1
        self._fail_all(unavailable(message, code))
        pause = min(_LONGEST_PAUSE, 0.05 * 2**self._failures)
        self._failures += 1
        self._keep(self._begin_later(pause))

    async def _begin_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not self._closed:
            self._begin()

    def _fail_all(self, error: ApiError) -> None:
        tickets, self._tickets = self._tickets, set()
        for ticket in tickets:
            ticket.fail(error)

    async def _watch(self) -> None:
        """Notice when nothing is delivered though requests are under way."""
        patience = self.settings.stall_timeout
        while True:
            await asyncio.sleep(min(1.0, patience / 4))
            silent = monotonic() - self._last
            if self._tickets and self._worker is not None and silent > patience:
                log.error(
                    "%d answers are under way and nothing came of them for %.1f s; the "
                    "engine is started anew. Its thread is at:\n%s",
                    self.under_way,
                    silent,
                    _stack(self._worker),
                )
                self.counts.stalls += 1
                self._worker.stop()
                self._given_up.append(self._worker)
                self._replace(f"The engine stalled for {silent:.0f} s.", "engine_stalled")

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _stack(worker: Worker) -> str:
    frame = sys._current_frames().get(worker.thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(it has ended)"
