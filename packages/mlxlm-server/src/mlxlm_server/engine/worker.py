"""The thread in which a model computes."""

import inspect
import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import mlx.core as mx
from mlxlm_generate import (
    BatchGenerator,
    Drafter,
    ModelDrafter,
    NGramDrafter,
    Request,
    TokenResponse,
    generation_stream,
)
from mlxlm_generate.defaults import GENERATION

from mlxlm_server.engine.prefixes import Lease
from mlxlm_server.engine.ticket import Computed, Event, Progress, Started, Ticket
from mlxlm_server.errors import of_request
from mlxlm_server.settings import ServerSettings

log = logging.getLogger(__name__)

Delivery = list[tuple[Ticket, int, Event]]
Call = Callable[["Worker"], None]


class Worker:
    """Computes until it is told to stop; what comes of a step is given to `deliver` at once.

    `deliver(generation, events)` and `ended(generation, error)` are called in this thread;
    `error` is None after `stop`. Without work it waits and takes no time (R33).
    """

    def __init__(
        self,
        model: Any,
        settings: ServerSettings,
        *,
        generation: int,
        prefixes: Lease,
        memory_budget: int,
        stop_tokens: list[list[int]],
        deliver: Callable[[int, Delivery], None],
        ended: Callable[[int, BaseException | None], None],
        make_generator: Callable[..., BatchGenerator] = BatchGenerator,
        draft: Any = None,
    ) -> None:
        self.generation = generation
        self.prefixes = prefixes
        self._model, self._settings, self._budget = model, settings, memory_budget
        self._stop_tokens, self._make = stop_tokens, make_generator
        self._draft = draft
        self._deliver, self._ended = deliver, ended
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._running: dict[int, tuple[Ticket, int]] = {}
        self._works: deque[tuple[Ticket, int, Generator[None, int, Any]]] = deque()
        self._out: Delivery = []
        self._stopped = False
        self.thread = Thread(target=self._main, name=f"engine-{generation}", daemon=True)

    # From any thread.

    def start(self) -> None:
        self.thread.start()

    def submit(self, ticket: Ticket) -> None:
        self._calls.put(lambda worker: worker._take(ticket))

    def cancel(self, ticket: Ticket) -> None:
        self._calls.put(lambda worker: worker._drop(ticket))

    def stop(self) -> None:
        """Have the thread end before its next step."""
        self._stopped = True
        self._calls.put(None)

    # In the thread.

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as failure:  # whatever it is, someone has to be told (R31)
            self._ended(self.generation, failure)
        else:
            self._ended(self.generation, None)

    def _run(self) -> None:
        settings = self._settings
        with self._make(
            self._model,
            stop_tokens=self._stop_tokens,
            completion_batch_size=settings.decode_concurrency,
            prefill_batch_size=settings.prompt_concurrency,
            prefill_step_size=settings.prefill_step_size,
            max_kv_size=settings.max_kv_size,
            kv_bits=settings.kv_bits,
            kv_group_size=settings.kv_group_size,
            quantized_kv_start=settings.quantized_kv_start,
            memory_budget=self._budget,
            drafter=self._drafter(),
            num_draft_tokens=settings.num_draft_tokens,
        ) as self._engine:
            self._deliver(self.generation, [])  # ready
            while not self._stopped:
                self._step()

    def _drafter(self) -> Callable[[], Drafter] | None:
        """Return what makes the one who guesses for a request."""
        settings = self._settings
        if settings.ngram_draft:
            return NGramDrafter
        if self._draft is None:
            return None
        return partial(
            ModelDrafter,
            self._draft,
            max_kv_size=settings.max_kv_size,
            prefill_step_size=settings.prefill_step_size,
            kv_bits=settings.kv_bits,
            kv_group_size=settings.kv_group_size,
            quantized_kv_start=settings.quantized_kv_start,
        )

    def _step(self) -> None:
        self._answer_calls(wait=self._engine.idle and not self._works)
        if self._stopped:
            return
        if not self._engine.idle:
            prompts, tokens = self._engine.next()
            for prompt in prompts:
                ticket, index = self._running[prompt.uid]
                self._out.append((ticket, index, Progress(prompt.progress[0])))
                if prompt.end_of_segment and not prompt.end_of_prompt:
                    self._keep_segment(prompt.uid)
            for response in tokens:
                self._token(response)
        if self._works:
            self._work()
        out, self._out = self._out, []
        if out:
            self._deliver(self.generation, out)

    def _answer_calls(self, wait: bool) -> None:
        try:
            call = self._calls.get() if wait else self._calls.get_nowait()
            while True:
                if call is None or self._stopped:
                    return
                call(self)
                call = self._calls.get_nowait()
        except Empty:
            return

    def _take(self, ticket: Ticket) -> None:
        for index, request in enumerate(ticket.requests):
            if not isinstance(request, Request):
                work = request(self._model)
                self._works.append((ticket, index, work))
                continue
            try:
                ids = request.prompt
                cache, rest = self.prefixes.fetch(ids)
                cached = len(ids) - len(rest)
                parts = [rest]
                if ticket.boundary is not None and cached < ticket.boundary < len(ids):
                    parts = [ids[cached : ticket.boundary], ids[ticket.boundary :]]
                made = replace(request, segments=parts, cache=cache, history=ids[:cached] or None)
                uid = self._engine.submit([made])[0]
            except Exception as error:
                self._out.append((ticket, index, of_request(error)))
                continue
            self._running[uid] = ticket, index
            ticket.uids[index] = uid
            self._out.append((ticket, index, Started(cached)))

    def _work(self) -> None:
        """Do a piece of the work that waits longest for one."""
        ticket, index, work = self._works.popleft()
        settings = self._settings
        limit = settings.prefill_step_size
        if not self._engine.idle:  # answers wait meanwhile
            limit = min(limit, GENERATION.interleaved_step_size)
        try:
            with mx.stream(generation_stream()):
                if inspect.getgeneratorstate(work) == inspect.GEN_CREATED:
                    next(work)
                work.send(limit)
        except StopIteration as end:
            self._out.append((ticket, index, Computed(end.value)))
        except Exception as error:
            told = of_request(error)
            if told.status >= 500:
                log.error("request %s failed", ticket.id, exc_info=error)
            self._out.append((ticket, index, told))
        else:
            self._works.append((ticket, index, work))
            self._out.append((ticket, index, Progress(limit)))

    def _drop(self, ticket: Ticket) -> None:
        """End what is left of a ticket, and keep what was computed for it (R38)."""
        self._works = deque(each for each in self._works if each[0] is not ticket)
        uids = [uid for uid in ticket.uids.values() if uid in self._running]
        for uid in uids:
            del self._running[uid]
        for cache, tokens in self._engine.remove(uids, return_prompt_caches=True).values():
            self.prefixes.keep(tokens, cache, "assistant")

    def _token(self, response: TokenResponse) -> None:
        ticket, index = self._running[response.uid]
        if response.finish_reason is None:
            self._out.append((ticket, index, response))
            return
        del self._running[response.uid], ticket.uids[index]
        if response.error is not None:
            log.error("request %s failed", ticket.id, exc_info=response.error)
            response.error.__traceback__ = None  # its frames hold caches, and are in a cycle
            self._out.append((ticket, index, of_request(response.error)))
            return
        if response.prompt_cache is not None and response.all_tokens is not None:
            self.prefixes.keep(response.all_tokens, response.prompt_cache, "assistant")
        self._out.append((ticket, index, replace(response, prompt_cache=None, all_tokens=None)))

    def _keep_segment(self, uid: int) -> None:
        cache, tokens = self._engine.extract_cache([uid])[uid]
        self.prefixes.keep(tokens, cache, "user")
