"""From logits to the next token."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
from mlxlm_sample import Sampler as MadeSampler
from mlxlm_sample import combined_options

from mlxlm_generate.logprobs import Observed, log_softmax
from mlxlm_generate.protocols import LogitsProcessor, Sampler

Observe = Callable[[mx.array, mx.array], Observed]


class Choice(NamedTuple):
    """A token (1,) and what was to be observed of it: lazy arrays."""

    token: mx.array
    observed: Observed


class Mark(NamedTuple):
    """A place that a chooser can go back to."""

    history: mx.array
    sampler: Any


class Turns(NamedTuple):
    """Tokens (n,) chosen one after another, and for each what was observed and the place after."""

    tokens: mx.array
    observed: list[Observed]
    marks: list[Mark]


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
        token, logits, logprobs = self._choose(logits)
        if self.observe is None:
            return Choice(token, ())
        if logprobs is None:
            logprobs = log_softmax(logits)
        return Choice(token, self.observe(logprobs, token))

    def _choose(self, logits: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """Return a token, the processed logits, and the log-probabilities if it took those."""
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
        return token, logits, logprobs

    def pending(self) -> tuple[mx.array, ...]:
        """What must be evaluated at each step, lest its graph grow."""
        return (self.history,) if self.processors else ()

    # Choosing ahead.

    @property
    def rewinds(self) -> bool:
        """Whether choices can be taken back: nothing of somebody else's is asked."""
        known = self.sampler is None or type(self.sampler) is MadeSampler
        return known and (not self.processors or combined_options(self.processors) is not None)

    def in_turn(self, logits: mx.array) -> Turns:
        """Choose from logits (n, V), each row as if the rows before had been chosen from."""
        rows = range(logits.shape[0])
        if self.processors:
            choices, marks = [], []
            for i in rows:
                choices.append(self(logits[i : i + 1]))
                marks.append(self.mark())
            tokens = mx.concatenate([choice.token for choice in choices])
            return Turns(tokens, [choice.observed for choice in choices], marks)
        logprobs = None
        if isinstance(self.sampler, MadeSampler):
            logprobs = log_softmax(logits)
            tokens, places = self.sampler.in_turn(logprobs)
            marks = [Mark(self.history, place) for place in places]
        else:
            tokens, marks = mx.argmax(logits, axis=-1), [self.mark()] * len(rows)
        if self.observe is None:
            return Turns(tokens, [()] * len(rows), marks)
        if logprobs is None:
            logprobs = log_softmax(logits)
        observed = [self.observe(logprobs[i : i + 1], tokens[i : i + 1]) for i in rows]
        return Turns(tokens, observed, marks)

    def foresee(self, logits: mx.array) -> mx.array:
        """Return the token (1,) that a call would choose; `rewind` before it is called."""
        return self._choose(logits)[0] if self.rewinds else mx.argmax(logits, axis=-1)

    def mark(self) -> Mark:
        """Return what `rewind` goes back to."""
        known = isinstance(self.sampler, MadeSampler)
        return Mark(self.history, self.sampler.mark() if known else None)  # type: ignore[union-attr]

    def rewind(self, mark: Mark) -> None:
        """Take back the choices since `mark()`; only where `rewinds`."""
        self.history = mark.history
        if isinstance(self.sampler, MadeSampler):
            self.sampler.rewind(mark.sampler)
