"""What the batch engine gives out."""

from dataclasses import dataclass, field
from typing import Any, Literal

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_generate.batch.stop import Match
from mlxlm_generate.logprobs import NO_LOGPROBS, Logprobs

BatchFinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """One token of a request. The last response of a request has a `finish_reason`.

    With "stop" the token is the one that ends the answer, and not part of it; `match` is
    the whole sequence or text where a matcher found it. With "error" there is no token,
    and `error` says what went wrong.
    """

    uid: int
    token: int | None
    finish_reason: BatchFinishReason | None = None
    match: Match | None = None
    error: Exception | None = None
    from_draft: bool = False
    drafted: int = 0
    """Tokens guessed for the request so far, with speculation."""
    accepted: int = 0
    """Guesses that became tokens of its answer so far; these have `from_draft`."""
    record: Logprobs = NO_LOGPROBS
    prompt_cache: list[Cache] | None = None
    """In the last response, where caches are kept: it has seen `all_tokens`."""
    all_tokens: tuple[int, ...] | None = None
    """In the last response: history, prompt and every token generated."""

    @property
    def logprob(self) -> float | None:
        """Log-probability of `token`, where log-probabilities were asked for."""
        return self.record.logprob

    @property
    def top_logprobs(self) -> tuple[tuple[int, float], ...] | None:
        """The k likeliest tokens and their log-probabilities, likeliest first."""
        return self.record.top

    @property
    def logprobs(self) -> mx.array | None:
        """All log-probabilities (V,), float32, where "full" was asked for."""
        return self.record.full


@dataclass(frozen=True, slots=True)
class PromptResponse:
    """How far a prompt is: `progress` is (tokens processed, tokens in all)."""

    uid: int
    progress: tuple[int, int]
    end_of_segment: bool = False
    end_of_prompt: bool = False


@dataclass(slots=True)
class BatchStats:
    """Counts in tokens, times in seconds, `peak_memory` in gigabytes (10⁹ bytes).

    `drafted` counts guesses, with speculation, and `accepted` those that were right.
    """

    prompt_tokens: int = 0
    prompt_tps: float = 0.0
    prompt_time: float = 0.0
    generation_tokens: int = 0
    generation_tps: float = 0.0
    generation_time: float = 0.0
    peak_memory: float = 0.0
    drafted: int = 0
    accepted: int = 0

    def add(self, before: "BatchStats", after: "BatchStats") -> None:
        """Count in what came between two readings."""
        self.prompt_tokens += after.prompt_tokens - before.prompt_tokens
        self.prompt_time += after.prompt_time - before.prompt_time
        self.generation_tokens += after.generation_tokens - before.generation_tokens
        self.generation_time += after.generation_time - before.generation_time
        self.drafted += after.drafted - before.drafted
        self.accepted += after.accepted - before.accepted
        self.prompt_tps = _rate(self.prompt_tokens, self.prompt_time)
        self.generation_tps = _rate(self.generation_tokens, self.generation_time)
        self.peak_memory = max(self.peak_memory, mx.get_peak_memory() / 1e9)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """The answers to a batch of prompts, in the order of the prompts.

    An answer that ended with an error has the text up to there, and the error in `errors`.
    """

    texts: list[str]
    stats: BatchStats
    caches: list[list[Cache]] | None = None
    token_ids: list[list[int]] | None = None
    logprobs: list[list[float]] | None = None
    """Log-probabilities of the tokens in `token_ids`."""
    finish_reasons: list[BatchFinishReason] = field(default_factory=list)
    errors: list[Exception | None] = field(default_factory=list)


Extracted = tuple[list[Cache], list[int]]
"""A request's prompt cache, and the tokens that it has seen."""

States = list[Any]
