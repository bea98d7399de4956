"""One sampler for a batch whose rows have settings of their own."""

import math
from collections.abc import Callable, Sequence

import mlx.core as mx

from mlxlm_sample.draw import MAX_INVERSE_TEMP, draw
from mlxlm_sample.errors import SamplingOptionError
from mlxlm_sample.filters import (
    drop_top_choices,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    protected,
)
from mlxlm_sample.keys import fold_in
from mlxlm_sample.options import SamplingOptions


class RowSampler:
    """Draws a token for each row as `Sampler` with that row's options would.

    The settings are arrays, made once: a call is a fixed number of operations, however
    many rows there are. A filter looks only at the rows that it is on for.
    """

    def __init__(self, options: Sequence[SamplingOptions]) -> None:
        self.options = tuple(options)
        self._drawn = [i for i, o in enumerate(self.options) if not o.greedy]
        self._some = None if len(self._drawn) == len(self.options) else mx.array(self._drawn)
        drawing = [self.options[i] for i in self._drawn]
        self._top_p = _Filter(drawing, lambda o: o.uses_top_p)
        self._min_p = _Filter(drawing, lambda o: o.min_p > 0)
        self._xtc = _Filter(drawing, lambda o: o.uses_xtc)
        self._top_k = _Filter(drawing, lambda o: o.top_k > 0)
        self._inverse_temp = _column([min(1 / o.temp, MAX_INVERSE_TEMP) for o in drawing])
        self._p = _column([o.top_p for o in self._top_p.options])
        self._log_min_p = _column([math.log(o.min_p) for o in self._min_p.options])
        self._probability = _column([o.xtc_probability for o in self._xtc.options])
        self._threshold = _column([o.xtc_threshold for o in self._xtc.options])
        self._special: tuple[int, mx.array | None] | None = None

    @property
    def greedy(self) -> bool:
        """Whether no row draws: `keys` are then not looked at."""
        return not self._drawn

    def errors(self, size: int) -> dict[int, SamplingOptionError]:
        """Return, by row, what a vocabulary of `size` makes wrong; such rows keep all of it."""
        return {
            i: SamplingOptionError(
                "top_k",
                f"`top_k` has to be an integer in the (0, {size}) interval, but is {o.top_k}.",
            )
            for i, o in enumerate(self.options)
            if o.top_k >= size
        }

    def __call__(self, logprobs: mx.array, keys: mx.array) -> mx.array:
        """Draw ids (B,) from log-probs (B, V), row b with key b of `keys`, (B, 2)."""
        if self.greedy:
            return mx.argmax(logprobs, axis=-1)
        if self._some is None:
            return self._draw(logprobs, keys)
        tokens = mx.argmax(logprobs, axis=-1)
        tokens[self._some] = self._draw(logprobs[self._some], keys[self._some])
        return tokens

    def _draw(self, logprobs: mx.array, keys: mx.array) -> mx.array:
        x = logprobs.astype(mx.float32)
        size = x.shape[-1]
        x = self._top_p(x, lambda some, _: keep_top_p(some, self._p))
        floors = [o.min_tokens_to_keep for o in self._min_p.options]
        x = self._min_p(x, lambda some, _: keep_min_p(some, self._log_min_p, floors))
        if self._xtc.options:
            special = self._protected(size)
            x = self._xtc(
                x,
                lambda some, of: drop_top_choices(
                    some, self._probability, self._threshold, special, fold_in(of(keys), 0)
                ),
            )
        counts = [min(o.top_k, size) for o in self._top_k.options]
        x = self._top_k(x, lambda some, _: keep_top_k(some, counts))
        return draw(x * self._inverse_temp, keys)

    def _protected(self, size: int) -> mx.array | None:
        if self._special is None or self._special[0] != size:
            tokens = [o.xtc_special_tokens or () for o in self._xtc.options]
            self._special = size, protected(tokens, size)
        return self._special[1]


class _Filter:
    """The rows that a filter is on for, and their options."""

    def __init__(
        self, options: Sequence[SamplingOptions], uses: Callable[[SamplingOptions], bool]
    ) -> None:
        rows = [i for i, o in enumerate(options) if uses(o)]
        self.options = [options[i] for i in rows]
        self._rows = None if len(rows) == len(options) else mx.array(rows, dtype=mx.int32)

    def __call__(
        self,
        x: mx.array,
        apply: Callable[[mx.array, Callable[[mx.array], mx.array]], mx.array],
    ) -> mx.array:
        """Replace the rows by `apply(rows, of)`; `of` takes the same rows of another array."""
        rows = self._rows
        if not self.options:
            return x
        if rows is None:
            return apply(x, lambda other: other)
        x[rows] = apply(x[rows], lambda other: other[rows])
        return x


def _column(values: Sequence[float]) -> mx.array:
    # No operation, which would wait its turn: another thread may go on from here.
    return mx.array([[value] for value in values], dtype=mx.float32)
