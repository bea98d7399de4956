"""Log-probabilities, only those asked for, so that memory stays flat (R60)."""

from dataclasses import dataclass
from typing import Literal, cast

import mlx.core as mx

from mlxlm_generate.errors import InvalidOption

LogprobsRequest = Literal["sampled", "full"] | int | None
"""The token's own, all (V,), the k likeliest with the token's own, or none."""

Observed = tuple[mx.array, ...]


def log_softmax(logits: mx.array) -> mx.array:
    """Return log-probabilities in float32, in which small ones keep their differences."""
    logits = logits.astype(mx.float32)
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True)
class Logprobs:
    """What a response says of its token; see `GenerationResponse`."""

    logprob: float | None = None
    top: tuple[tuple[int, float], ...] | None = None
    full: mx.array | None = None


class Observer:
    """Picks the log-probabilities of one request out of each step."""

    def __init__(self, request: LogprobsRequest) -> None:
        if isinstance(request, bool) or not (
            request in (None, "sampled", "full") or (isinstance(request, int) and request >= 1)
        ):
            raise InvalidOption(
                f"logprobs={request!r}: ask for None, 'sampled', 'full', or how many of the "
                "likeliest tokens you want, 1 or more"
            )
        self.request = request

    def observe(self, logprobs: mx.array, token: mx.array) -> Observed:
        """Return what to evaluate with `token` (1,), given log-probabilities (1, V)."""
        sampled = mx.take_along_axis(logprobs, token[:, None], axis=-1)
        if self.request == "sampled":
            return (sampled,)
        if self.request == "full":
            return (sampled, logprobs[0])
        k = min(int(self.request or 1), logprobs.shape[-1])
        likeliest = mx.argpartition(-logprobs, k - 1, axis=-1)[:, :k]
        values = mx.take_along_axis(logprobs, likeliest, axis=-1)
        return sampled, likeliest[0], values[0]

    def read(self, observed: Observed) -> Logprobs:
        """Turn evaluated arrays into numbers; () gives an empty record."""
        if not observed:
            return NO_LOGPROBS
        sampled, *others = observed
        logprob = cast(float, sampled.item())
        if self.request == "sampled":
            return Logprobs(logprob)
        if self.request == "full":
            return Logprobs(logprob, full=others[0])
        ids, values = others
        pairs = zip(cast(list[int], ids.tolist()), cast(list[float], values.tolist()), strict=True)
        return Logprobs(logprob, top=tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))))


NO_LOGPROBS = Logprobs()
