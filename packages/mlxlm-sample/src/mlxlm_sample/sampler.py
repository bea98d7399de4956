"""The sampler: filters in a fixed order, then a draw."""

import warnings
from collections.abc import Sequence
from typing import Any, cast

import mlx.core as mx

from mlxlm_sample.defaults import SAMPLING
from mlxlm_sample.draw import draw, scale
from mlxlm_sample.errors import SamplingWarning
from mlxlm_sample.filters import apply_min_p, apply_top_k, apply_top_p, apply_xtc
from mlxlm_sample.keys import KeyStream, fold_in
from mlxlm_sample.options import SamplingOptions

Mark = int | mx.array
"""A place in a sampler's draws: how many there were, or MLX's global random state."""


def make_sampler(
    temp: float = SAMPLING.temp,
    top_p: float = SAMPLING.top_p,
    min_p: float = SAMPLING.min_p,
    min_tokens_to_keep: int = SAMPLING.min_tokens_to_keep,
    top_k: int = SAMPLING.top_k,
    xtc_probability: float = SAMPLING.xtc_probability,
    xtc_threshold: float = SAMPLING.xtc_threshold,
    xtc_special_tokens: Sequence[int] | None = None,
    *,
    key: int | mx.array | None = None,
) -> "Sampler":
    """Return `sampler(logprobs (B, V)) -> token ids (B,)`.

    Order: top-p, min-p, XTC, top-k, draw at `temp`; a filter at its default is left out.
    `temp` 0 is greedy. SamplingOptionError if a value is out of range, SamplingWarning if
    a setting has no effect or XTC is told of no special tokens (`xtc_special_tokens`
    makes the list; an empty one says that there are none).

    `key`, a seed or an MLX key, makes the sampler one request's: its n-th call draws from
    the n-th key of `KeyStream(key)`. None draws from `mx.random.state`.
    """
    special = None if xtc_special_tokens is None else tuple(xtc_special_tokens)
    options = SamplingOptions(
        temp, top_p, min_p, min_tokens_to_keep, top_k, xtc_probability, xtc_threshold, special
    )
    _warn(options)
    return Sampler(options, key=key)


class Sampler:
    """Draws tokens from log-probs as `options` say; `make_sampler` warns of idle ones first.

    Not compiled: on a CPU the kernels take seconds to build and save a tenth of a
    millisecond a token.
    """

    def __init__(self, options: SamplingOptions, *, key: int | mx.array | None = None) -> None:
        self.options = options
        self._keys = None if key is None else KeyStream(key)
        self._calls = 0

    @property
    def keys(self) -> KeyStream | None:
        """The keys that calls draw from, in order; None for the global state."""
        return self._keys

    def __call__(self, logprobs: mx.array, *, key: mx.array | None = None) -> mx.array:
        """Draw ids (B,) from log-probs (B, V).

        `key`, (2,) or one per row (B, 2), takes the place of the sampler's own keys and of
        the global state: row b of a batch draws what it would alone with key b.
        """
        if self.options.greedy:
            return mx.argmax(logprobs, axis=-1)
        if key is None and self._keys is not None:
            key = self._keys.at(self._calls)
            self._calls += 1
        return draw(self._scaled(logprobs, key), key)

    def in_turn(self, logprobs: mx.array) -> tuple[mx.array, list[Mark]]:
        """Draw ids (n,) from log-probs (n, V) as n calls, one after another, would.

        `rewind` to mark i takes back the draws after the one of row i.
        """
        rows = logprobs.shape[0]
        if self._keys is None or self.options.greedy:
            drawn = [(self(logprobs[i : i + 1]), self.mark()) for i in range(rows)]
            return mx.concatenate([ids for ids, _ in drawn]), [mark for _, mark in drawn]
        first, self._calls = self._calls, self._calls + rows
        keys = self._keys.at(mx.arange(first, first + rows))
        return self(logprobs, key=keys), list(range(first + 1, first + rows + 1))

    def mark(self) -> Mark:
        """Return where the next call draws from, for `rewind`."""
        if self._keys is not None:
            return self._calls
        return _global_state()[0]

    def rewind(self, mark: Mark) -> None:
        """Let the next call draw what the one after `mark()` did, in the same thread."""
        if isinstance(mark, int):
            self._calls = mark
        else:
            _global_state()[0][:] = mark  # in place: the list itself can't be written to

    def distribution(self, logprobs: mx.array, *, key: mx.array | None = None) -> mx.array:
        """Return the log-probs (B, V), float32, that a call with this `key` draws from.

        Greedy: 0 for the argmax, -inf elsewhere. The key decides XTC alone.
        """
        if self.options.greedy:
            best = mx.argmax(logprobs, axis=-1, keepdims=True)
            return mx.where(mx.arange(logprobs.shape[-1]) == best, 0.0, -mx.inf)
        scaled = self._scaled(logprobs, key)
        return scaled - mx.logsumexp(scaled, axis=-1, keepdims=True)

    def _scaled(self, logprobs: mx.array, key: mx.array | None) -> mx.array:
        o = self.options
        x = logprobs.astype(mx.float32)
        if o.uses_top_p:
            x = apply_top_p(x, o.top_p)
        if o.min_p > 0:
            x = apply_min_p(x, o.min_p, o.min_tokens_to_keep)
        if o.uses_xtc:
            # A key of its own: the coin must say nothing about the draw.
            coin_key = None if key is None else fold_in(key, 0)
            special = o.xtc_special_tokens or ()
            x = apply_xtc(x, o.xtc_probability, o.xtc_threshold, special, key=coin_key)
        if o.top_k > 0:
            x = apply_top_k(x, o.top_k)
        return scale(x, o.temp)


def _global_state() -> list[mx.array]:
    state: Any = mx.random.state
    return cast(list[mx.array], state)


def _warn(options: SamplingOptions) -> None:
    ignored = ", ".join(f"{name}={getattr(options, name)}" for name in options.ignored())
    if ignored and options.greedy:
        _tell(f"temp=0 is greedy, so these settings have no effect: {ignored}. Set temp above 0.")
    elif ignored:
        _tell(f"These settings have no effect while the filter they belong to is off: {ignored}.")
    if options.uses_xtc and not options.greedy and options.xtc_special_tokens is None:
        _tell(
            "XTC without xtc_special_tokens may remove newlines and EOS; pass "
            "xtc_special_tokens(tokenizer), or [] if there are none to protect."
        )


def _tell(message: str) -> None:
    warnings.warn(message, SamplingWarning, stacklevel=4)
