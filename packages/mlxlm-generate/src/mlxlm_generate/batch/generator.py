"""The engine: admits requests, feeds prompts between steps, delivers tokens."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Self

import mlx.core as mx
from mlxlm_cache import Cache, copy_prompt_cache
from mlxlm_sample import KeyStream, fold_in
from mlxlm_sample import Sampler as MadeSampler

from mlxlm_generate.batch.constraint import TokenConstraint
from mlxlm_generate.batch.guessing import Guessing
from mlxlm_generate.batch.insertion import make_requests
from mlxlm_generate.batch.lane import Lane
from mlxlm_generate.batch.lanes import Lanes
from mlxlm_generate.batch.memory import Budget
from mlxlm_generate.batch.prefill import Prefill
from mlxlm_generate.batch.request import Request, Tokens
from mlxlm_generate.batch.response import BatchStats, Extracted, PromptResponse, TokenResponse
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.batch.stop import StopMatcher, StopSequenceMatcher
from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.kv import kv_quantization, working_cache
from mlxlm_generate.logprobs import LogprobsRequest
from mlxlm_generate.protocols import LogitsProcessor, Model, Sampler
from mlxlm_generate.speculate.drafter import Drafter
from mlxlm_generate.speculate.model import ModelDrafter
from mlxlm_generate.streams import generation_stream
from mlxlm_generate.wired import wired_limit

_CLEAR_EVERY = 256  # steps: gives back buffers of sizes that don't come again


class BatchGenerator:
    """Generates for many requests at once; they join and leave between any two steps.

    A context manager, or call `close`. Any thread may call it, one at a time. Each
    request's tokens are those that it would have alone, sampled ones included.

    `completion_batch_size` bounds how many requests run at once, `prefill_batch_size` how
    many of their prompts. A prompt is fed in chunks of `prefill_step_size` tokens, and of
    `interleaved_step_size` while others generate, with a step of theirs between any two.
    `memory_budget` bounds the bytes of all caches, by default to most of what is free:
    a request waits until what it may come to need fits in; where `memory_budget` is given
    and never enough for a request, `insert` raises InvalidOption.

    `drafter`, as the class `NGramDrafter`, makes what guesses up to `num_draft_tokens` of a
    request, checked in the steps of all, where it pays. In its place a `draft_model` guesses
    for all requests at once; its ids mean the same: see `check_draft_tokenizer`.

    `stop_tokens` are sequences of ids that end every request. Wrong options raise
    InvalidOption, or CacheError for caches that cannot do what is asked.
    """

    def __init__(
        self,
        model: Model,
        *,
        max_tokens: int = GENERATION.batch_max_tokens,
        stop_tokens: Iterable[Sequence[int]] | None = None,
        sampler: Sampler | None = None,
        logits_processors: Sequence[LogitsProcessor] | None = None,
        completion_batch_size: int = GENERATION.completion_batch_size,
        prefill_batch_size: int = GENERATION.prefill_batch_size,
        prefill_step_size: int = GENERATION.prefill_step_size,
        interleaved_step_size: int = GENERATION.interleaved_step_size,
        max_kv_size: int | None = None,
        kv_bits: int | None = None,
        kv_group_size: int = GENERATION.kv_group_size,
        quantized_kv_start: int = GENERATION.quantized_kv_start,
        memory_budget: int | None = None,
        return_prompt_caches: bool = True,
        stream: mx.ThreadLocalStream | None = None,
        drafter: Callable[[], Drafter] | None = None,
        draft_model: Model | None = None,
        num_draft_tokens: int = GENERATION.num_draft_tokens,
    ) -> None:
        for name, value in (
            ("completion_batch_size", completion_batch_size),
            ("prefill_batch_size", prefill_batch_size),
            ("prefill_step_size", prefill_step_size),
            ("interleaved_step_size", interleaved_step_size),
            ("num_draft_tokens", num_draft_tokens),
        ):
            if value < 1:
                raise InvalidOption(f"{name}={value}: give 1 or more.")
        self._model = model
        self._max_tokens = max_tokens
        self._sampler = sampler
        self._processors = tuple(logits_processors or ())
        sequences = [tuple(sequence) for sequence in stop_tokens or ()]
        self._stops = frozenset(s[0] for s in sequences if len(s) == 1)
        longer = [s for s in sequences if len(s) != 1]
        self._matchers: list[StopMatcher] = [StopSequenceMatcher(longer)] if longer else []
        self._most = max(completion_batch_size, prefill_batch_size)
        self._most_prompts = prefill_batch_size
        self._step_size = prefill_step_size
        self._interleaved = min(interleaved_step_size, prefill_step_size)
        self._max_kv_size = max_kv_size
        self._quantization = kv_quantization(kv_bits, kv_group_size, quantized_kv_start)
        self._fresh_cache()  # raises what it would raise later
        self._budget = Budget(
            model, memory_budget, self._fresh_cache, self._quantization, num_draft_tokens
        )
        if draft_model is not None:
            if drafter is not None:
                raise InvalidOption("drafter and draft_model both guess: give one of them.")
            drafter = partial(ModelDrafter, draft_model, max_kv_size=max_kv_size)
        self._make_drafter = drafter
        self._guessing = Guessing(num_draft_tokens, self._quantization, self._interleaved)
        self._keep_caches = return_prompt_caches
        self._stream = generation_stream() if stream is None else stream

        self._waiting: deque[Row] = deque()
        self._prefill = Prefill(model, self._quantization, self._fresh_cache)
        self._lanes = Lanes()
        self._rows: dict[int, Row] = {}
        self._out: list[TokenResponse] = []
        self._next_uid = 0
        self._steps = 0
        self._stats = BatchStats()
        self._closed = False
        self._open = ExitStack()
        self._open.enter_context(wired_limit(model, [self._stream]))

    # Requests.

    def insert(
        self,
        prompts: Sequence[Tokens],
        max_tokens: int | Sequence[int] | None = None,
        caches: Sequence[Sequence[Cache] | None] | None = None,
        all_tokens: Sequence[Tokens | None] | None = None,
        samplers: Sequence[Sampler | None] | None = None,
        logits_processors: Sequence[Sequence[LogitsProcessor] | None] | None = None,
        stop_matchers: Sequence[StopMatcher | None] | None = None,
        *,
        keys: Sequence[int | mx.array | KeyStream | None] | None = None,
        constraints: Sequence[TokenConstraint | None] | None = None,
        drafters: Sequence[Drafter | None] | None = None,
        logprobs: LogprobsRequest | Sequence[LogprobsRequest] = None,
        min_tokens: int | Sequence[int] = 0,
        ignore_eos: bool | Sequence[bool] = False,
    ) -> list[int]:
        """Add prompts, each token ids, and return a number (uid) for each.

        Lists have an entry for each prompt; None in one means the engine's own setting.
        `caches`, which stay as they are, have seen `all_tokens` before the prompt.
        `keys`, seeds or MLX keys, make requests draw the same whatever runs beside them.
        See `Request` for the rest. Nothing is added where anything is wrong.
        """
        return self.insert_segments(
            [[prompt] for prompt in prompts],
            max_tokens,
            caches,
            all_tokens,
            samplers,
            logits_processors,
            stop_matchers,
            keys=keys,
            constraints=constraints,
            drafters=drafters,
            logprobs=logprobs,
            min_tokens=min_tokens,
            ignore_eos=ignore_eos,
        )

    def insert_segments(
        self,
        segments: Sequence[Sequence[Tokens]],
        max_tokens: int | Sequence[int] | None = None,
        caches: Sequence[Sequence[Cache] | None] | None = None,
        all_tokens: Sequence[Tokens | None] | None = None,
        samplers: Sequence[Sampler | None] | None = None,
        logits_processors: Sequence[Sequence[LogitsProcessor] | None] | None = None,
        stop_matchers: Sequence[StopMatcher | None] | None = None,
        *,
        keys: Sequence[int | mx.array | KeyStream | None] | None = None,
        constraints: Sequence[TokenConstraint | None] | None = None,
        drafters: Sequence[Drafter | None] | None = None,
        logprobs: LogprobsRequest | Sequence[LogprobsRequest] = None,
        min_tokens: int | Sequence[int] = 0,
        ignore_eos: bool | Sequence[bool] = False,
    ) -> list[int]:
        """Do what `insert` does, with prompts in parts.

        At the end of each part `next` returns, so that `extract_cache` gives what has
        seen just that.
        """
        return self.submit(
            make_requests(
                segments,
                max_tokens=self._max_tokens if max_tokens is None else max_tokens,
                caches=caches,
                all_tokens=all_tokens,
                samplers=samplers,
                logits_processors=logits_processors,
                stop_matchers=stop_matchers,
                keys=keys,
                constraints=constraints,
                drafters=drafters,
                logprobs=logprobs,
                min_tokens=min_tokens,
                ignore_eos=ignore_eos,
            )
        )

    def submit(self, requests: Sequence[Request]) -> list[int]:
        """Add requests, all or none, and return a number (uid) for each."""
        self._check_open()
        with mx.stream(self._stream):
            rows = [self._row(request, self._next_uid + i) for i, request in enumerate(requests)]
            for row in rows:
                self._budget.check(row)
        self._next_uid += len(rows)
        self._waiting.extend(rows)
        self._rows.update((row.uid, row) for row in rows)
        return [row.uid for row in rows]

    def _row(self, request: Request, uid: int) -> Row:
        cache = request.cache
        if cache is not None:
            working_cache(self._model, list(cache), None, self._quantization)  # raises
        if request.logits_processors is None:
            request = replace(request, logits_processors=self._processors)
        if request.keep_cache is None:
            request = replace(request, keep_cache=self._keep_caches)
        if request.drafter is None and self._make_drafter is not None:
            request = replace(request, drafter=self._make_drafter())
        key = request.key
        if request.sampler is None and self._sampler is not None:
            request = replace(request, sampler=self._sampler)
            shared = self._sampler.keys if type(self._sampler) is MadeSampler else None
            if key is None and shared is not None:
                key = KeyStream(fold_in(shared.base, uid))  # else all would draw alike
        elif key is None and type(request.sampler) is MadeSampler:
            key = request.sampler.keys
        if not isinstance(key, KeyStream):
            key = KeyStream(_random_key())
        row = Row(uid, request, stops=self._stops, matchers=self._matchers, key=key)
        if cache is not None:
            row.before = max((c.tokens_seen for c in cache), default=0)
        return row

    def _fresh_cache(self) -> list[Cache]:
        return working_cache(self._model, None, self._max_kv_size, self._quantization)

    def _admit(self) -> None:
        running = self._lanes.rows + list(self._prefill.rows)
        while (
            self._waiting
            and len(running) < self._most
            and len(self._prefill.rows) < self._most_prompts
        ):
            row = self._waiting[0]
            if not self._budget.fits(running, row):
                return
            self._waiting.popleft()
            given = row.request.cache
            row.cache = self._fresh_cache() if given is None else copy_prompt_cache(given)
            self._prefill.add(row)
            running.append(row)

    # Steps.

    def next(self) -> tuple[list[PromptResponse], list[TokenResponse]]:
        """Do one step: a token for each running request, and a chunk of prompt.

        Two empty lists mean that nothing came of it yet, or that nothing is left: see
        `idle`.
        """
        self._check_open()
        with mx.stream(self._stream):
            self._admit()
            started = perf_counter()
            stepped = bool(self._lanes)
            self._decode()
            decoded = perf_counter()
            prompts = self._process_prompts()
            finished = perf_counter()
        out, self._out = self._out, []
        if stepped:
            self._stats.generation_time += decoded - started
            self._stats.generation_tokens += sum(response.token is not None for response in out)
            self._stats.drafted = self._guessing.drafted
            self._stats.accepted = self._guessing.accepted
        if prompts:
            self._stats.prompt_time += finished - decoded
        self._steps += 1
        if self._steps % _CLEAR_EVERY == 0:
            mx.clear_cache()
        return prompts, out

    def next_generated(self) -> list[TokenResponse]:
        """Go on until there are tokens, or nothing is left: then the list is empty."""
        while not self.idle:
            _, responses = self.next()
            if responses:
                return responses
        return []

    @property
    def idle(self) -> bool:
        """Whether no request waits or runs."""
        return not (self._rows or self._out)

    def _decode(self) -> None:
        if self._quantization is not None:
            self._lanes.quantize(self._quantization)
        for lane in self._lanes:
            seen = len(self._out)
            try:
                self._guessing.step(lane, self._model, self._out)
            except Exception as error:
                self._out += [row.failure(error) for row in lane.rows if row.finish_reason is None]
            self._finish(lane, seen)

    def _finish(self, lane: Lane, seen: int) -> None:
        """Complete the last responses of rows that ended, and let the rows go."""
        gone = {row.uid: i for i, row in enumerate(lane.rows) if row.finish_reason is not None}
        if not gone:
            return
        for place in range(seen, len(self._out)):
            response = self._out[place]
            i = gone.get(response.uid)
            if i is None or response.finish_reason in (None, "error"):
                continue
            row = lane.rows[i]
            self._out[place] = replace(
                response,
                prompt_cache=lane.extract(i) if row.request.keep_cache else None,
                all_tokens=tuple(row.tokens),
            )
        for uid in gone:
            self._forget(uid)
        lane.leave(list(gone.values()))
        self._lanes.sweep()

    def _forget(self, uid: int) -> None:
        row = self._rows.pop(uid)
        self._guessing.leave(row)
        row.leave()

    def _process_prompts(self) -> list[PromptResponse]:
        running = bool(self._lanes)
        before = {row.uid: row.fed for row in self._prefill.rows}
        rows = list(self._prefill.rows)
        prompts, ready = self._prefill.step(
            self._interleaved if running else self._step_size,
            self._most_prompts,
            wait=not running,
        )
        for lane in ready:  # these feed the last token of their prompt
            self._stats.prompt_tokens += sum(len(row.prompt) - row.fed for row in lane.rows)
        for row in rows:
            self._stats.prompt_tokens += row.fed - before[row.uid]
            if row.fault is not None:
                self._out.append(row.failure(row.fault))
                self._forget(row.uid)
        self._lanes.place([lane for lane in ready if not self._filled(lane)])
        return prompts

    def _filled(self, lane: Lane) -> bool:
        """Tell whether a lane wants no token; its caches are then all there is."""
        done = [i for i, row in enumerate(lane.rows) if row.request.max_tokens == 0]
        for i in done:
            row = lane.rows[i]
            row.finish_reason = "length"
            cache = lane.extract(i) if row.request.keep_cache else None
            tokens = tuple(row.tokens)
            self._out.append(
                TokenResponse(row.uid, None, "length", prompt_cache=cache, all_tokens=tokens)
            )
            self._forget(row.uid)
        lane.leave(done)
        return not lane.rows

    # Caches.

    def extract_cache(self, uids: Sequence[int]) -> dict[int, Extracted]:
        """Return each request's prompt cache, a copy, with the tokens that it has seen."""
        self._check_open()
        with mx.stream(self._stream):
            return {uid: self._extracted(self._known(uid)) for uid in uids}

    def _extracted(self, row: Row) -> Extracted:
        lane, i = self._lanes.where(row)
        if lane is not None:
            return lane.extract(i), row.seen_tokens
        cache = row.cache or row.request.cache
        return copy_prompt_cache(cache or self._fresh_cache()), row.seen_tokens

    def remove(
        self, uids: Sequence[int], return_prompt_caches: bool = False
    ) -> dict[int, Extracted]:
        """Drop requests, whatever they are at; return their caches where that is asked."""
        self._check_open()
        rows = [self._known(uid) for uid in dict.fromkeys(uids)]
        extracted = self.extract_cache(uids) if return_prompt_caches else {}
        with mx.stream(self._stream):
            for row in rows:
                lane, i = self._lanes.where(row)
                if lane is not None:
                    lane.leave([i])
                elif row in self._waiting:
                    self._waiting.remove(row)
                else:
                    self._prefill.remove(row)
                self._forget(row.uid)
        self._lanes.sweep()
        return extracted

    def _known(self, uid: int) -> Row:
        if uid not in self._rows:
            raise InvalidOption(f"uid {uid} is no request that waits or runs: it may have ended.")
        return self._rows[uid]

    @property
    def prompt_cache_nbytes(self) -> int:
        """Bytes of the caches of all that runs, spare room included."""
        return self._prefill.nbytes + sum(lane.nbytes for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """How many requests have not been admitted yet."""
        return len(self._waiting)

    # Book-keeping.

    @contextmanager
    def stats(self, stats: BatchStats | None = None) -> Iterator[BatchStats]:
        """Count what happens inside, in addition to what `stats` has already."""
        counted = BatchStats() if stats is None else stats
        before = replace(self._stats)
        try:
            yield counted
        finally:
            counted.add(before, self._stats)

    def close(self) -> None:
        """Drop all requests and release the wired limit. Extracted caches live on."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        self._prefill.rows.clear()
        self._lanes, self._rows, self._out = Lanes(), {}, []
        self._open.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidOption("This BatchGenerator is closed: make another one.")


def _random_key() -> mx.array:
    """Draw a key from MLX's global state."""
    words = mx.random.randint(-(2**31), 2**31 - 1, (2,), dtype=mx.int32)
    return words.view(mx.uint32)
