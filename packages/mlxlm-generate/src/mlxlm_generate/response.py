"""What streaming generation yields."""

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class GenerationResponse:
    """One token of an answer, with the text that it completes.

    The last one has a `finish_reason` and the text held back so far. A token that ends
    the sequence is never in `token` or `text`: it is in `stop_token`.
    """

    text: str
    token: int | None
    """None in the last response where no token came: after a stop token, or none wanted."""
    from_draft: bool
    prompt_tokens: int
    prompt_tps: float
    """Prompt tokens per second, up to the first token of the answer."""
    generation_tokens: int
    """Tokens generated so far, the stop token included."""
    generation_tps: float
    """Tokens per second since the first one; 0.0 before there are two."""
    peak_memory: float
    """Gigabytes (10⁹ bytes) that MLX held at most."""
    finish_reason: FinishReason | None = None
    stop_token: int | None = None
    logprob: float | None = None
    """Log-probability of `token`, where log-probabilities were asked for."""
    top_logprobs: tuple[tuple[int, float], ...] | None = None
    """The k likeliest tokens and their log-probabilities, likeliest first."""
    logprobs: mx.array | None = None
    """All log-probabilities (V,), float32, where "full" was asked for."""
    drafted: int = 0
    """Tokens guessed so far, with speculation."""
    accepted: int = 0
    """Guesses that became tokens of the answer so far; these have `from_draft`."""
