import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlxlm_sample
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_sample import SamplingOptionError, apply_min_p, apply_top_k, apply_top_p, apply_xtc

Kept = Callable[[mx.array], list[list[int]]]
LogprobsOf = Callable[..., mx.array]

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


@st.composite
def batches(draw: st.DrawFn) -> mx.array:
    """Rows of log-probs: distinct or full of ties, peaked or flat, some tokens banned."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 60)))
    logits = rng.normal(0, draw(st.sampled_from([0.1, 1.0, 4.0, 15.0])), shape)
    if draw(st.booleans()):
        logits = np.round(logits)
    if draw(st.booleans()):
        logits[rng.random(shape) < 0.3] = -np.inf
        logits[:, rng.integers(shape[1])] = 0
    x = mx.array(logits.astype(np.float32)).astype(draw(st.sampled_from(DTYPES)))
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def exact(logprobs: mx.array) -> np.ndarray[Any, Any]:
    return np.array(logprobs.astype(mx.float32)).astype(np.float64)


def probabilities(row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    p = np.exp(row - row.max())
    normal: np.ndarray[Any, Any] = p / p.sum()
    return normal


def ranked(row: np.ndarray[Any, Any]) -> list[int]:
    """Ids from the most probable; of equals the lower id first."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


def check_only_removes(before: mx.array, after: mx.array) -> None:
    assert after.dtype == before.dtype
    b, a = exact(before), exact(after)
    np.testing.assert_array_equal(np.where(np.isfinite(a), a, -np.inf), a)
    np.testing.assert_array_equal(a[np.isfinite(a)], b[np.isfinite(a)])


@settings(max_examples=150, deadline=None)
@given(batches(), st.floats(0.001, 0.999))
def test_top_p_keeps_the_fewest_tokens_that_reach_the_mass(x: mx.array, top_p: float) -> None:
    filtered = apply_top_p(x, top_p)
    check_only_removes(x, filtered)
    for row, out in zip(exact(x), exact(filtered), strict=True):
        p, order = probabilities(row), ranked(row)
        before = np.cumsum(p[order]) - p[order]
        finite = [i for i in order if np.isfinite(row[i])]
        got = {i for i in order if np.isfinite(out[i])}
        # float32 sums may differ from float64 ones in the last digits.
        sure = {i for i, b in zip(order, before, strict=True) if b < top_p - 1e-5}
        maybe = {i for i, b in zip(order, before, strict=True) if b < top_p + 1e-5}
        assert sure & set(finite) <= got <= maybe
        assert got == set(finite[: len(got)])
        assert order[0] in got


@settings(max_examples=150, deadline=None)
@given(batches(), st.floats(1e-6, 1.0), st.integers(1, 70))
def test_min_p_keeps_tokens_near_the_first_and_a_least_number(
    x: mx.array, min_p: float, floor: int
) -> None:
    filtered = apply_min_p(x, min_p, floor)
    check_only_removes(x, filtered)
    for row, out in zip(exact(x), exact(filtered), strict=True):
        gap = row - row.max() - math.log(min_p)
        nth = np.sort(row)[::-1][min(floor, len(row)) - 1]
        finite = np.isfinite(row)
        got = np.isfinite(out)
        assert np.all(got[finite & ((gap > 1e-5) | (row >= nth))])
        assert not np.any(got & (gap < -1e-5) & (row < nth))
        assert got.sum() >= min(floor, finite.sum())


@settings(max_examples=150, deadline=None)
@given(batches(), st.data())
def test_top_k_keeps_exactly_k_lower_ids_first(x: mx.array, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, x.shape[-1] - 1))
    filtered = apply_top_k(x, k)
    check_only_removes(x, filtered)
    for row, out in zip(exact(x), exact(filtered), strict=True):
        expected = {i for i in ranked(row)[:k] if np.isfinite(row[i])}
        assert set(np.flatnonzero(np.isfinite(out))) == expected


@settings(max_examples=150, deadline=None)
@given(batches(), st.floats(0.0, 0.5), st.sets(st.integers(0, 80), max_size=4))
def test_xtc_drops_all_likely_tokens_but_the_last(
    x: mx.array, threshold: float, special: set[int]
) -> None:
    filtered = apply_xtc(x, 1.0, threshold, sorted(special))
    check_only_removes(x, filtered)
    for row, out in zip(exact(x), exact(filtered), strict=True):
        p = probabilities(row)
        if np.any(np.abs(p - threshold) < 1e-6):
            continue
        likely = p[p > threshold]
        last = likely.min() if likely.size else np.inf
        got = np.isfinite(out)
        for i in np.flatnonzero(np.isfinite(row)):
            if i in special or p[i] < last * (1 - 1e-5):
                assert got[i]
            elif p[i] > last * (1 + 1e-5):
                assert not got[i]


def test_XTC_decides_row_by_row() -> None:
    x = mx.broadcast_to(mx.log(mx.array([0.5, 0.3, 0.2])), (400, 3))
    filtered = exact(apply_xtc(x, 0.5, 0.1, key=mx.random.key(0)))
    dropped = np.isinf(filtered[:, 0])
    assert 150 < dropped.sum() < 250
    np.testing.assert_array_equal(np.isinf(filtered[:, 1]), dropped)
    assert np.all(np.isfinite(filtered[:, 2]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_top_p_of_equal_probabilities_keeps_its_share(dtype: mx.Dtype, kept: Kept) -> None:
    x = mx.full((2, 8), -math.log(8), dtype=dtype)
    assert kept(apply_top_p(x, 0.45)) == [[0, 1, 2, 3]] * 2
    for tiny in (1e-9, 1e-50, 5e-324):  # the last two are 0 in float32
        assert kept(apply_top_p(x, tiny)) == [[0]] * 2


def test_R05_top_p_0_and_1_both_mean_off(golden_logprobs: mx.array) -> None:
    for off in (0, 0.0, 1, 1.0):
        assert mx.array_equal(apply_top_p(golden_logprobs, off), golden_logprobs)


@pytest.mark.parametrize("top_p", [-0.1, 1.1, float("nan"), "0.5", True])
def test_R05_top_p_out_of_range_is_an_error(top_p: Any, golden_logprobs: mx.array) -> None:
    with pytest.raises(SamplingOptionError, match=r"`top_p` has to be a float in the \[0, 1\]"):
        apply_top_p(golden_logprobs, top_p)


def test_top_p_in_half_precision_sums_in_float32(kept: Kept) -> None:
    # A float16 running sum of 4096 equal shares stalls long before 1.
    x = mx.full((1, 4096), -math.log(4096), dtype=mx.float16)
    assert abs(len(kept(apply_top_p(x, 0.75))[0]) - 3072) <= 1


@pytest.mark.parametrize("top_k", [0, -1, 48, 49, 2.0, True, None])
def test_top_k_bounds_are_exclusive(top_k: Any, golden_logprobs: mx.array) -> None:
    message = rf"`top_k` has to be an integer in the \(0, 48\) interval, but is {top_k}\."
    with pytest.raises(SamplingOptionError, match=message) as caught:
        apply_top_k(golden_logprobs, top_k)
    assert caught.value.argument == "top_k"


@pytest.mark.parametrize("min_p", [-0.1, 1.5, float("nan")])
def test_min_p_out_of_range_is_an_error(min_p: float, golden_logprobs: mx.array) -> None:
    message = rf"`min_p` has to be a float in the \[0, 1\] interval, but is {min_p}"
    with pytest.raises(SamplingOptionError, match=message):
        apply_min_p(golden_logprobs, min_p)


@pytest.mark.parametrize("floor", [0, -1, 1.5, True])
def test_min_tokens_to_keep_is_a_positive_int(floor: Any, golden_logprobs: mx.array) -> None:
    with pytest.raises(SamplingOptionError, match="must be a positive int"):
        apply_min_p(golden_logprobs, 0.5, floor)


def test_min_p_0_is_off_and_tiny_ones_do_not_underflow(logprobs_of: LogprobsOf, kept: Kept) -> None:
    x = mx.array([[0.0, -80.0, -110.0]])
    assert mx.array_equal(apply_min_p(x, 0), x)
    assert kept(apply_min_p(x, 1e-40)) == [[0, 1]]
    assert kept(apply_min_p(logprobs_of([0.4, 0.4, 0.2]), 1)) == [[0, 1]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((1.5, 0.1), "xtc_probability"),
        ((-0.1, 0.1), "xtc_probability"),
        ((0.5, 0.6), "xtc_threshold"),
        ((0.5, -0.1), "xtc_threshold"),
        ((0.5, 0.1, [-1]), "xtc_special_tokens"),
        ((0.5, 0.1, ["\n"]), "xtc_special_tokens"),
    ],
)
def test_xtc_checks_its_arguments(
    arguments: tuple[Any, ...], named: str, golden_logprobs: mx.array
) -> None:
    with pytest.raises(SamplingOptionError, match=f"`{named}`") as caught:
        apply_xtc(golden_logprobs, *arguments)
    assert caught.value.argument == named


def test_xtc_probability_0_is_off(golden_logprobs: mx.array) -> None:
    assert mx.array_equal(apply_xtc(golden_logprobs, 0, 0.1), golden_logprobs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_without_tokens_stays_and_harms_no_other(dtype: mx.Dtype, kept: Kept) -> None:
    x = mx.log(mx.array([[0.0, 0.0, 0.0, 0.0], [0.1, 0.5, 0.3, 0.1]])).astype(dtype)
    assert kept(apply_top_p(x, 0.6)) == [[], [1, 2]]
    assert kept(apply_min_p(x, 0.5, 2)) == [[], [1, 2]]
    assert kept(apply_top_k(x, 2)) == [[], [1, 2]]
    assert kept(apply_xtc(x, 1.0, 0.2)) == [[], [0, 2, 3]]


def test_the_filters_equal_mlx_lm(
    golden: dict[str, Any], golden_logprobs: mx.array, kept: Kept
) -> None:
    for case in golden["filters"]:
        function = getattr(mlxlm_sample, case["name"])
        assert kept(function(golden_logprobs, *case["arguments"])) == case["kept"], case
