import math
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_generate.logprobs import NO_LOGPROBS, Observer, log_softmax

LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(values=LOGITS)
def test_log_softmax_is_the_closed_form(values: list[float]) -> None:
    total = math.log(math.fsum(math.exp(v - max(values)) for v in values)) + max(values)
    got = log_softmax(mx.array([values]))[0].tolist()
    assert got == pytest.approx([v - total for v in values], abs=1e-4)


def test_half_precision_is_widened() -> None:
    assert log_softmax(mx.array([[1.0, 2.0]], dtype=mx.bfloat16)).dtype == mx.float32


@settings(max_examples=50, deadline=None)
@given(values=LOGITS, k=st.integers(1, 20))
def test_top_k_are_the_likeliest_in_order(values: list[float], k: int) -> None:
    logprobs = log_softmax(mx.array([values]))
    token = mx.argmax(logprobs, axis=-1)
    observer = Observer(k)
    record = observer.read(observer.observe(logprobs, token))
    assert record.top is not None
    flat: Any = logprobs[0].tolist()
    assert [value for _, value in record.top] == sorted(flat, reverse=True)[:k]
    assert all(flat[i] == value for i, value in record.top)
    assert len({i for i, _ in record.top}) == min(k, len(values))
    assert record.logprob == max(flat)


def test_none_reads_nothing() -> None:
    assert Observer(None).read(()) is NO_LOGPROBS
