"""Logits processors: `processor(tokens, logits) -> logits`, run on raw logits.

`logits` are (B, V). `tokens` is the history, prompt included: (T,) where B is 1, or (B, T)
with shorter rows padded on the left. An id outside the vocabulary, -1 say, is padding.
The result has the logits' dtype.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import mlx.core as mx

from mlxlm_sample import checks
from mlxlm_sample.defaults import SAMPLING
from mlxlm_sample.options import ProcessorOptions

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]


class MadeProcessor:
    """A processor of this module; `options` say what it does, and nothing of any other."""

    def __init__(self, options: ProcessorOptions, process: LogitsProcessor) -> None:
        self.options = options
        self._process = process

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        return self._process(tokens, logits)


def combined_options(processors: Sequence[LogitsProcessor]) -> ProcessorOptions | None:
    """Return the options of which `make_logits_processors` makes these.

    None where there are none: for processors of somebody's own, twice the same, or another
    order.
    """
    made: dict[str, object] = {}
    place = -1
    for processor in processors:
        if type(processor) is not MadeProcessor:
            return None
        for name, context in _NAMES.items():
            value = getattr(processor.options, name)
            if value is None:
                continue
            if list(_NAMES).index(name) <= place:
                return None
            place = list(_NAMES).index(name)
            made[name] = value
            if context is not None:
                made[context] = getattr(processor.options, context)
    return replace(ProcessorOptions(), **made)  # type: ignore[arg-type]


_NAMES = {  # in the order of processing: a setting, and how far back it looks
    "logit_bias": None,
    "repetition_penalty": "repetition_context_size",
    "presence_penalty": "presence_context_size",
    "frequency_penalty": "frequency_context_size",
}


def make_logits_processors(
    logit_bias: Mapping[int, float] | None = None,
    repetition_penalty: float | None = SAMPLING.repetition_penalty,
    repetition_context_size: int | None = SAMPLING.repetition_context_size,
    presence_penalty: float | None = SAMPLING.presence_penalty,
    presence_context_size: int | None = SAMPLING.presence_context_size,
    frequency_penalty: float | None = SAMPLING.frequency_penalty,
    frequency_context_size: int | None = SAMPLING.frequency_context_size,
) -> list[LogitsProcessor]:
    """Return the processors that the settings ask for, in the order of the arguments.

    None and 0 turn a penalty off, 1 also the repetition penalty. A context size counts the
    latest tokens that are looked at; None is all. SamplingOptionError if a value is out
    of range.
    """
    o = ProcessorOptions(
        logit_bias,
        repetition_penalty,
        repetition_context_size,
        presence_penalty,
        presence_context_size,
        frequency_penalty,
        frequency_context_size,
    )
    processors: list[LogitsProcessor] = []
    if o.logit_bias:
        processors.append(make_logit_bias(o.logit_bias))
    if o.repetition_penalty not in (None, 0, 1):
        processors.append(make_repetition_penalty(o.repetition_penalty, o.repetition_context_size))
    if o.presence_penalty:
        processors.append(make_presence_penalty(o.presence_penalty, o.presence_context_size))
    if o.frequency_penalty:
        processors.append(make_frequency_penalty(o.frequency_penalty, o.frequency_context_size))
    return processors


def make_logit_bias(logit_bias: Mapping[int, float]) -> LogitsProcessor:
    """Add a number to each token's logit; -inf bans it.

    The first call raises SamplingOptionError if an id is outside the vocabulary.
    """
    checks.check_logit_bias(logit_bias)
    options = ProcessorOptions(logit_bias=logit_bias)
    if not logit_bias:
        return MadeProcessor(options, lambda tokens, logits: logits)
    ids = mx.array(list(logit_bias))
    values = mx.array(list(logit_bias.values()), dtype=mx.float32)
    top = max(logit_bias)

    def processor(tokens: mx.array, logits: mx.array) -> mx.array:
        checks.check_within("logit_bias", top, logits.shape[-1])
        return logits.at[..., ids].add(values.astype(logits.dtype))

    return MadeProcessor(options, processor)


def make_repetition_penalty(
    penalty: float, context_size: int | None = SAMPLING.repetition_context_size
) -> LogitsProcessor:
    """Divide positive logits of seen tokens by `penalty`, multiply the others (arXiv:1909.05858).

    A token is penalised once, however often it came.
    """
    checks.check_repetition_penalty(penalty)
    checks.check_context_size("repetition_context_size", context_size)

    def processor(tokens: mx.array, logits: mx.array) -> mx.array:
        ids, seen = _window(tokens, logits, context_size)
        old = mx.take_along_axis(logits, ids, axis=-1)
        new = mx.where(old > 0, old / penalty, old * penalty)
        return _move(logits, ids, seen, new, down=penalty >= 1)

    options = ProcessorOptions(repetition_penalty=penalty, repetition_context_size=context_size)
    return MadeProcessor(options, processor)


def make_presence_penalty(
    penalty: float, context_size: int | None = SAMPLING.presence_context_size
) -> LogitsProcessor:
    """Subtract `penalty` once from each seen token's logit; below 0 it encourages."""
    checks.check_penalty("presence_penalty", penalty)
    checks.check_context_size("presence_context_size", context_size)

    def processor(tokens: mx.array, logits: mx.array) -> mx.array:
        ids, seen = _window(tokens, logits, context_size)
        old = mx.take_along_axis(logits, ids, axis=-1)
        return _move(logits, ids, seen, old - penalty, down=penalty >= 0)

    options = ProcessorOptions(presence_penalty=penalty, presence_context_size=context_size)
    return MadeProcessor(options, processor)


def make_frequency_penalty(
    penalty: float, context_size: int | None = SAMPLING.frequency_context_size
) -> LogitsProcessor:
    """Subtract `penalty` from a token's logit as often as it was seen; below 0 it encourages."""
    checks.check_penalty("frequency_penalty", penalty)
    checks.check_context_size("frequency_context_size", context_size)

    def processor(tokens: mx.array, logits: mx.array) -> mx.array:
        ids, seen = _window(tokens, logits, context_size)
        counts = mx.zeros(logits.shape).at[_rows(ids), ids].add(seen.astype(mx.float32))
        # One rounding: in float16 a sum of small steps would stall.
        return (logits.astype(mx.float32) - counts * penalty).astype(logits.dtype)

    options = ProcessorOptions(frequency_penalty=penalty, frequency_context_size=context_size)
    return MadeProcessor(options, processor)


def _window(
    tokens: mx.array, logits: mx.array, context_size: int | None
) -> tuple[mx.array, mx.array]:
    """Return the latest ids (B, n), 0 where it is padding, and whether each is a token."""
    batch, size = logits.shape
    rows = tokens[None] if tokens.ndim == 1 else tokens
    if rows.ndim != 2 or rows.shape[0] != batch:
        raise ValueError(
            f"`tokens` of shape {tokens.shape} has to hold one row of history per row of the "
            f"logits {logits.shape}: (T,) for a single row, (B, T) for more."
        )
    if context_size is not None:
        rows = rows[:, -context_size:]
    seen = (rows >= 0) & (rows < size)
    return mx.where(seen, rows, 0).astype(mx.int32), seen


def _move(
    logits: mx.array, ids: mx.array, seen: mx.array, new: mx.array, *, down: bool
) -> mx.array:
    """Write `new` at the seen ids, all of it lower (`down`) or higher than what is there.

    As a minimum or maximum it may be written twice, and padding, infinite, writes nothing.
    """
    at = logits.at[_rows(ids), ids]
    if down:
        return at.minimum(mx.where(seen, new, mx.inf).astype(logits.dtype))
    return at.maximum(mx.where(seen, new, -mx.inf).astype(logits.dtype))


def _rows(ids: mx.array) -> mx.array:
    return mx.arange(ids.shape[0])[:, None]
