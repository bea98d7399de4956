"""Filters: each sets the log-probs (…, V) of the tokens it removes to -inf, row by row.

The result has the input's dtype; sums and comparisons are float32. Of equal log-probs the
lower id goes first, as in argmax, so the most probable token outlives top-p, min-p and
top-k. A row that is -inf throughout stays as it is.
"""

import math
from collections.abc import Sequence

import mlx.core as mx

from mlxlm_sample import checks
from mlxlm_sample.draw import coin
from mlxlm_sample.errors import SamplingOptionError


def apply_top_p(logprobs: mx.array, top_p: float) -> mx.array:
    """Keep the fewest tokens whose probabilities sum to at least `top_p` (arXiv:1904.09751).

    At least one token stays. 0 and 1 both mean off.
    """
    checks.check_interval("top_p", top_p, 1)
    return keep_top_p(logprobs, top_p) if 0 < top_p < 1 else logprobs


def keep_top_p(logprobs: mx.array, top_p: float | mx.array) -> mx.array:
    """Do what `apply_top_p` does, with settings that are known to be good: one, or (B, 1)."""
    exact = logprobs.astype(mx.float32)
    ordered = _sort(exact)
    probs = mx.softmax(ordered, axis=-1)
    more_probable = mx.cumsum(probs, axis=-1, reverse=True, inclusive=False)
    # A tiny top_p may be 0 in float32: the first token stays all the same.
    count = mx.maximum((more_probable < top_p).sum(axis=-1, keepdims=True), 1)
    least = mx.take_along_axis(ordered, logprobs.shape[-1] - count, axis=-1)
    return _drop(logprobs, ~_largest(exact, least, count))


def apply_min_p(logprobs: mx.array, min_p: float, min_tokens_to_keep: int = 1) -> mx.array:
    """Keep tokens at least `min_p` times as probable as the first (arXiv:2407.01082).

    At least the `min_tokens_to_keep` most probable stay, and all that equal the last of
    them. `min_p` 0 means off. It works in log space: small values do not underflow.
    """
    checks.check_interval("min_p", min_p, 1)
    checks.check_min_tokens_to_keep(min_tokens_to_keep)
    return keep_min_p(logprobs, math.log(min_p), [min_tokens_to_keep]) if min_p else logprobs


def keep_min_p(
    logprobs: mx.array, log_min_p: float | mx.array, min_tokens_to_keep: Sequence[int]
) -> mx.array:
    """Do what `apply_min_p` does, given its logarithm; one setting, or (B, 1) and B of them."""
    exact = logprobs.astype(mx.float32)
    least = exact.max(axis=-1, keepdims=True) + log_min_p
    if any(n > 1 for n in min_tokens_to_keep):
        least = mx.minimum(least, _nth_largest(exact, min_tokens_to_keep))
    return _drop(logprobs, exact < least)


def apply_xtc(
    logits: mx.array,
    xtc_probability: float,
    xtc_threshold: float,
    xtc_special_tokens: Sequence[int] = (),
    *,
    key: mx.array | None = None,
) -> mx.array:
    """Exclude top choices: with `xtc_probability`, drop all but the least probable of the
    tokens whose probability exceeds `xtc_threshold`.

    Each row decides for itself, by `key` as in `categorical_sampling`. The special tokens
    are never dropped; ids beyond the vocabulary have nothing to protect.
    """
    checks.check_interval("xtc_probability", xtc_probability, 1)
    checks.check_interval("xtc_threshold", xtc_threshold, 0.5)
    checks.check_token_ids("xtc_special_tokens", xtc_special_tokens)
    if xtc_probability == 0:
        return logits
    special = protected([xtc_special_tokens], logits.shape[-1])
    return drop_top_choices(logits, xtc_probability, xtc_threshold, special, key)


def protected(special_tokens: Sequence[Sequence[int]], size: int) -> mx.array | None:
    """Return a mask, (rows, size), of each row's special tokens; None where there are none."""
    at = [(i, t) for i, tokens in enumerate(special_tokens) for t in tokens if t < size]
    if not at:
        return None
    mask = mx.zeros((len(special_tokens), size), dtype=mx.bool_)
    rows, ids = (mx.array(list(numbers)) for numbers in zip(*at, strict=True))
    mask[rows, ids] = True
    return mask


def drop_top_choices(
    logits: mx.array,
    probability: float | mx.array,
    threshold: float | mx.array,
    special: mx.array | None,
    key: mx.array | None,
) -> mx.array:
    """Do what `apply_xtc` does; one setting, or (B, 1), and `special` from `protected`."""
    probs = mx.softmax(logits.astype(mx.float32), axis=-1)
    likely = probs > threshold
    last = mx.where(likely, probs, mx.inf).min(axis=-1, keepdims=True)
    dropped = (probs > last) & (coin(logits, key) <= probability)
    return _drop(logits, dropped if special is None else dropped & ~special)


def apply_top_k(logprobs: mx.array, top_k: int) -> mx.array:
    """Keep the `top_k` most probable tokens of each row (arXiv:1805.04833), exactly so many."""
    size = logprobs.shape[-1]
    if not (checks.is_integer(top_k) and 0 < top_k < size):
        raise SamplingOptionError(
            "top_k",
            f"`top_k` has to be an integer in the (0, {size}) interval, but is {top_k}.",
        )
    return keep_top_k(logprobs, [top_k])


def keep_top_k(logprobs: mx.array, top_k: Sequence[int]) -> mx.array:
    """Do what `apply_top_k` does, with one setting or one for each of B rows."""
    least = _nth_largest(logprobs, top_k)
    counts = mx.array(list(top_k))[:, None]
    return _drop(logprobs, ~_largest(logprobs, least, counts))


def _drop(logprobs: mx.array, dropped: mx.array) -> mx.array:
    return mx.where(dropped, mx.array(-mx.inf, dtype=logprobs.dtype), logprobs)


def _sort(x: mx.array) -> mx.array:
    """Sort float32 rows, ascending, as integers: on a CPU that takes two thirds of the time."""
    return _ordered_bits(mx.sort(_ordered_bits(x.view(mx.int32)), axis=-1)).view(mx.float32)


def _ordered_bits(bits: mx.array) -> mx.array:
    """Map a float's bits to an integer that orders as the float does, and back again."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _nth_largest(x: mx.array, n: Sequence[int]) -> mx.array:
    """Return (…, 1): the n-th largest of each row, or the least where it has fewer."""
    counts = [min(count, x.shape[-1]) for count in n]
    most = max(counts)
    if most == 1:
        return x.max(axis=-1, keepdims=True)
    largest = mx.topk(x, most, axis=-1)
    if min(counts) == most:
        return largest.min(axis=-1, keepdims=True)
    places = mx.array([most - count for count in counts])[:, None]
    return mx.take_along_axis(mx.sort(largest, axis=-1), places, axis=-1)


def _largest(x: mx.array, least: mx.array, count: mx.array) -> mx.array:
    """Mark the `count` largest of each row, given the least of them; lower ids first."""
    above = x > least
    tied = (x == least).astype(mx.int32)
    spare = count - above.sum(axis=-1, keepdims=True)
    return above | ((tied > 0) & (mx.cumsum(tied, axis=-1) <= spare))
