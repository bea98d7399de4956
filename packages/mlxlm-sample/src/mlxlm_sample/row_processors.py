"""Logits processors for a batch whose rows have settings of their own."""

from collections.abc import Sequence

import mlx.core as mx

from mlxlm_sample import checks
from mlxlm_sample.errors import SamplingOptionError
from mlxlm_sample.options import ProcessorOptions


class RowProcessors:
    """Does to each row what `make_logits_processors` with that row's options would.

    A call is a fixed number of operations, however many rows there are, and the tokens
    that it looks at are arrays of a fixed size: the latest ones, and counts of all where
    a context size is None.
    """

    def __init__(self, options: Sequence[ProcessorOptions], history: Sequence[Sequence[int]]):
        """Take each row's options, and its tokens so far, prompt included."""
        self.options = tuple(options)
        self._repetition = _Penalty(
            [o.repetition_penalty or 1.0 for o in options],
            [o.repetition_context_size for o in options],
            idle=1.0,
        )
        self._presence = _Penalty(
            [o.presence_penalty or 0.0 for o in options],
            [o.presence_context_size for o in options],
        )
        self._frequency = _Penalty(
            [o.frequency_penalty or 0.0 for o in options],
            [o.frequency_context_size for o in options],
        )
        penalties = (self._repetition, self._presence, self._frequency)
        self._width = max(penalty.width for penalty in penalties)
        self._unbounded = any(penalty.unbounded is not None for penalty in penalties)
        self._latest = _right_aligned(history, self._width) if self._width else None
        longest = max(map(len, history)) if self._unbounded else 0
        self._all = _right_aligned(history, longest) if longest else None
        self._counts: mx.array | None = None
        biases = [
            (row, token, value)
            for row, o in enumerate(options)
            for token, value in (o.logit_bias or {}).items()
        ]
        self._bias = biases and (
            mx.array([row for row, _, _ in biases]),
            mx.array([token for _, token, _ in biases]),
            mx.array([value for _, _, value in biases], dtype=mx.float32),
        )
        self._wrong: set[int] = set()

    def errors(self, size: int) -> dict[int, SamplingOptionError]:
        """Return, by row, what a vocabulary of `size` makes wrong; such rows are left alone."""
        found = {}
        for row, o in enumerate(self.options):
            try:
                checks.check_within("logit_bias", max(o.logit_bias or (-1,)), size)
            except SamplingOptionError as error:
                found[row] = error
        return found

    def append(self, tokens: mx.array) -> None:
        """Take note of the next token (B,) of every row; -1 is none."""
        column = tokens.reshape(-1, 1).astype(mx.int32)
        if self._latest is not None:
            # An id of -1 would push out one that counts: such rows stay as they are.
            moved = mx.concatenate([self._latest[:, 1:], column], axis=1)
            self._latest = mx.where(column < 0, self._latest, moved)
        if self._counts is not None:
            self._counts = _counted(self._counts, column)
        elif self._unbounded:
            self._all = column if self._all is None else mx.concatenate([self._all, column], 1)

    @property
    def state(self) -> list[mx.array]:
        """What to evaluate at each step, lest its graph grow."""
        return [a for a in (self._latest, self._all, self._counts) if a is not None]

    def __call__(self, logits: mx.array) -> mx.array:
        """Return the processed logits (B, V), of the dtype that they had."""
        if self._bias:
            rows, ids, values = self._bias
            size = logits.shape[-1]
            values = mx.where(ids < size, values, 0).astype(logits.dtype)
            logits = logits.at[rows, mx.minimum(ids, size - 1)].add(values)
        if self._repetition.used:
            penalty = self._repetition.column.astype(logits.dtype)
            new = mx.where(logits > 0, logits / penalty, logits * penalty)
            logits = mx.where(self._seen(self._repetition, logits) > 0, new, logits)
        if self._presence.used:
            penalty = self._presence.column.astype(logits.dtype)
            seen = self._seen(self._presence, logits) > 0
            logits = mx.where(seen, logits - penalty, logits)
        if self._frequency.used:
            moved = self._seen(self._frequency, logits) * self._frequency.column
            logits = (logits.astype(mx.float32) - moved).astype(logits.dtype)
        return logits

    def _seen(self, penalty: "_Penalty", logits: mx.array) -> mx.array:
        """Return how often each row has seen each token, float32 (B, V)."""
        counts = mx.zeros(logits.shape)
        if penalty.width and self._latest is not None:
            near = mx.arange(self._width, 0, -1) <= penalty.context
            counts = _counted(counts, mx.where(near, self._latest, -1))
        if penalty.unbounded is None:
            return counts
        if self._counts is None:
            self._counts = mx.zeros(logits.shape)
            if self._all is not None:
                self._counts = _counted(self._counts, self._all)
            self._all = None
        return mx.where(penalty.unbounded, self._counts, counts)


class _Penalty:
    """One penalty's settings, of all rows; `context` is 0 where the row has none."""

    def __init__(
        self, values: Sequence[float], contexts: Sequence[int | None], idle: float = 0.0
    ) -> None:
        on = [value != idle for value in values]
        sizes = [(n or 0) if used else 0 for n, used in zip(contexts, on, strict=True)]
        self.used = any(on)
        self.width = max(sizes)
        self.column = _column(values, mx.float32)
        self.context = _column(sizes, mx.int32)
        endless = [used and n is None for n, used in zip(contexts, on, strict=True)]
        self.unbounded = _column(endless, mx.bool_) if any(endless) else None


def _column(values: Sequence[float], dtype: mx.Dtype) -> mx.array:
    column = mx.array(list(values), dtype=dtype).reshape(-1, 1)
    mx.eval(column)  # Another thread, with another stream, may go on from here.
    return column


def _right_aligned(history: Sequence[Sequence[int]], width: int) -> mx.array:
    """Return the latest ids of each row, int32 (B, width), with -1 before shorter ones."""
    rows = [list(tokens[-width:]) for tokens in history]
    return mx.array([[-1] * (width - len(row)) + row for row in rows], dtype=mx.int32)


def _counted(counts: mx.array, ids: mx.array) -> mx.array:
    """Add 1 for each of `ids` (B, n); one outside of the vocabulary is padding."""
    known = (ids >= 0) & (ids < counts.shape[-1])
    rows = mx.arange(ids.shape[0])[:, None]
    return counts.at[rows, mx.where(known, ids, 0)].add(known.astype(counts.dtype))
