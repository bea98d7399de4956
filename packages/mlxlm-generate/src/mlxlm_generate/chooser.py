"""From logits to the next token."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx
from mlxlm_sample import Sampler as MadeSampler

from mlxlm_generate.logprobs import Observed, log_softmax
from mlxlm_generate.protocols import LogitsProcessor, Sampler

Observe = Callable[[mx.array, mx.array], Observed]


class Choice(NamedTuple):
    """A token (1,) and what was to be observed of it: lazy arrays."""

    token: mx.array
    observed: Observed


class Chooser:
    """Processes logits (1, V), then samples; without a sampler, takes the likeliest.

    Log-probabilities are worked out only for a sampler that draws, or for `observe`.
    """

    def __init__(
        self,
        sampler: Sampler | None,
        processors: Sequence[LogitsProcessor],
        observe: Observe | None,
        prompt: mx.array,
    ) -> None:
        greedy = type(sampler) is MadeSampler and sampler.options.greedy
        self.sampler = None if greedy else sampler
        self.processors = tuple(processors)
        self.observe = observe
        self.history = prompt

    def __call__(self, logits: mx.array) -> Choice:
        for process in self.processors:
            logits = process(self.history, logits)
        logprobs = None
        if self.sampler is None:
            token = mx.argmax(logits, axis=-1)
        else:
            logprobs = log_softmax(logits)
            token = self.sampler(logprobs)
        if self.processors:
            self.history = mx.concatenate([self.history, token.astype(self.history.dtype)])
        if self.observe is None:
            return Choice(token, ())
        if logprobs is None:
            logprobs = log_softmax(logits)
        return Choice(token, self.observe(logprobs, token))

    def pending(self) -> tuple[mx.array, ...]:
        """What must be evaluated at each step, lest its graph grow."""
        return (self.history,) if self.processors else ()
