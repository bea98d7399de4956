from collections import Counter
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_sample import (
    SamplingOptionError,
    make_frequency_penalty,
    make_logit_bias,
    make_logits_processors,
    make_presence_penalty,
    make_repetition_penalty,
)

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


@st.composite
def cases(draw: st.DrawFn) -> tuple[mx.array, np.ndarray[Any, Any], int | None]:
    """Logits (B, V) with zeros and bans among them, histories (B, T) with padding, a window."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batch, vocab = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    logits = rng.normal(0, 3, (batch, vocab))
    logits[rng.random(logits.shape) < 0.1] = 0
    logits[rng.random(logits.shape) < 0.1] = -np.inf
    history = rng.integers(0, vocab, (batch, draw(st.integers(0, 40))))
    history[rng.random(history.shape) < draw(st.sampled_from([0, 0.3]))] = -1
    x = mx.array(logits.astype(np.float32)).astype(draw(st.sampled_from(DTYPES)))
    return x, history, draw(st.sampled_from([None, 1, 5, 20]))


def as_float64(x: mx.array) -> np.ndarray[Any, Any]:
    return np.array(x.astype(mx.float32)).astype(np.float64)


def check(got: mx.array, logits: mx.array, expected: np.ndarray[Any, Any]) -> None:
    assert got.dtype == logits.dtype
    tolerance = {mx.float32: 1e-6, mx.float16: 1e-3, mx.bfloat16: 8e-3}[got.dtype]
    np.testing.assert_allclose(as_float64(got), expected, rtol=tolerance, atol=tolerance)


def windows(history: np.ndarray[Any, Any], size: int | None) -> list[Counter[int]]:
    return [Counter(t for t in row[-(size or 10**6) :].tolist() if t >= 0) for row in history]


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([1.3, 0.7, 1.0, 10.0]))
def test_repetition_penalty_is_sign_aware_and_once_per_token(
    case: tuple[mx.array, np.ndarray[Any, Any], int | None], penalty: float
) -> None:
    logits, history, size = case
    expected = as_float64(logits)
    for row, seen in zip(expected, windows(history, size), strict=True):
        for token in seen:
            row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    got = make_repetition_penalty(penalty, size)(mx.array(history), logits)
    check(got, logits, expected)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([0.5, -0.5, 0.0, 2.0]))
def test_presence_penalty_is_once_per_distinct_token(
    case: tuple[mx.array, np.ndarray[Any, Any], int | None], penalty: float
) -> None:
    logits, history, size = case
    expected = as_float64(logits)
    for row, seen in zip(expected, windows(history, size), strict=True):
        for token in seen:
            row[token] -= penalty
    check(make_presence_penalty(penalty, size)(mx.array(history), logits), logits, expected)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([0.5, -0.5, 0.0, 2.0]))
def test_frequency_penalty_is_once_per_occurrence(
    case: tuple[mx.array, np.ndarray[Any, Any], int | None], penalty: float
) -> None:
    logits, history, size = case
    expected = as_float64(logits)
    for row, seen in zip(expected, windows(history, size), strict=True):
        for token, count in seen.items():
            row[token] -= penalty * count
    check(make_frequency_penalty(penalty, size)(mx.array(history), logits), logits, expected)


def test_the_processors_equal_mlx_lm(golden: dict[str, Any], golden_logits: mx.array) -> None:
    history = mx.array(golden["history"])
    for case in golden["processors"]:
        options = dict(case["options"])
        if "logit_bias" in options:
            options["logit_bias"] = {int(k): v for k, v in options["logit_bias"].items()}
        logits = golden_logits[:1]
        for processor in make_logits_processors(**options):
            logits = processor(history, logits)
        np.testing.assert_allclose(logits[0], case["logits"], atol=2e-5, err_msg=str(options))


MAKERS = [make_repetition_penalty, make_presence_penalty, make_frequency_penalty]


@pytest.mark.parametrize("make", MAKERS)
def test_a_flat_history_is_the_history_of_one_row(make: Any) -> None:
    logits = mx.random.normal((1, 20), key=mx.random.key(0))
    history = mx.array([3, 4, 3], dtype=mx.uint32)
    assert mx.array_equal(make(1.5)(history, logits), make(1.5)(history[None], logits))


@pytest.mark.parametrize("make", MAKERS)
def test_an_empty_history_changes_nothing(make: Any) -> None:
    logits = mx.random.normal((1, 20), key=mx.random.key(0))
    assert mx.array_equal(make(1.5)(mx.array([], dtype=mx.uint32), logits), logits)


@pytest.mark.parametrize("make", MAKERS)
def test_ids_outside_the_vocabulary_penalise_nothing(make: Any) -> None:
    """In mlx-lm they write outside the row."""
    logits = mx.random.normal((2, 20), key=mx.random.key(0))
    for ids in ([20, 21, 10**6], [-1, -2, -20]):
        assert mx.array_equal(make(1.5)(mx.array([ids, ids]), logits), logits)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("history", [mx.array([1, 2]), mx.array([[1, 2]]), mx.zeros((2, 1, 1))])
def test_a_history_that_does_not_fit_the_batch_is_an_error(make: Any, history: mx.array) -> None:
    with pytest.raises(ValueError, match="one row of history per row"):
        make(1.5)(history, mx.zeros((2, 5)))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_context_size_is_a_positive_integer_or_none(make: Any, size: Any) -> None:
    with pytest.raises(SamplingOptionError, match="None looks at the whole history"):
        make(1.5, size)


@pytest.mark.parametrize("penalty", [0, -1.0, float("nan"), float("inf"), "1.1", True])
def test_a_repetition_penalty_is_positive(penalty: Any) -> None:
    with pytest.raises(SamplingOptionError, match="`repetition_penalty`"):
        make_repetition_penalty(penalty)


@pytest.mark.parametrize("make", [make_presence_penalty, make_frequency_penalty])
@pytest.mark.parametrize("penalty", [float("nan"), float("inf"), "1", None])
def test_an_additive_penalty_is_a_finite_number(make: Any, penalty: Any) -> None:
    with pytest.raises(SamplingOptionError, match="_penalty` has to be a finite number"):
        make(penalty)


def test_frequency_penalty_in_half_precision_counts_all_occurrences() -> None:
    logits = mx.full((1, 3), 20.0, dtype=mx.bfloat16)
    got = make_frequency_penalty(0.01, None)(mx.zeros((500,), dtype=mx.int32), logits)
    assert abs(float(got[0, 0].item()) - 15.0) < 0.1  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", DTYPES)
def test_logit_bias_adds_in_every_row_and_bans(dtype: mx.Dtype) -> None:
    logits = mx.zeros((2, 4), dtype=dtype)
    got = make_logit_bias({1: 2.5, 3: float("-inf")})(mx.array([0]), logits)
    assert got.dtype == dtype
    assert got.tolist() == [[0, 2.5, 0, float("-inf")]] * 2


def test_logit_bias_outside_the_vocabulary_is_an_error() -> None:
    processor = make_logit_bias({2: 1.0, 9: 1.0})
    with pytest.raises(SamplingOptionError, match="token 9, outside the vocabulary of 9"):
        processor(mx.array([0]), mx.zeros((1, 9)))


@pytest.mark.parametrize(
    "bias", [{-1: 1.0}, {"5": 1.0}, {1: float("nan")}, {1: float("inf")}, {1: "2"}]
)
def test_logit_bias_maps_ids_to_numbers(bias: Any) -> None:
    with pytest.raises(SamplingOptionError, match="`logit_bias`"):
        make_logit_bias(bias)


def test_only_the_processors_asked_for_are_made() -> None:
    assert make_logits_processors() == []
    off = make_logits_processors({}, repetition_penalty=1.0, presence_penalty=0.0)
    assert off == make_logits_processors(repetition_penalty=0, frequency_penalty=0) == []
    assert len(make_logits_processors({1: 1.0}, 1.1, 20, 0.5, 20, -0.5, None)) == 4


def test_an_empty_logit_bias_changes_nothing() -> None:
    logits = mx.zeros((1, 4))
    assert mx.array_equal(make_logit_bias({})(mx.array([0]), logits), logits)
