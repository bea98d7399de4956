import warnings
from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_sample import KeyStream, RowSampler, SamplingOptions, SamplingWarning, make_sampler

SIZE = 24


@st.composite
def options(draw: st.DrawFn) -> SamplingOptions:
    return SamplingOptions(
        temp=draw(st.sampled_from([0.0, 0.3, 1.0, 2.5])),
        top_p=draw(st.sampled_from([0.0, 0.2, 0.9, 1.0])),
        min_p=draw(st.sampled_from([0.0, 0.05, 0.6])),
        min_tokens_to_keep=draw(st.sampled_from([1, 3, 40])),
        top_k=draw(st.sampled_from([0, 1, 5, SIZE - 1])),
        xtc_probability=draw(st.sampled_from([0.0, 0.5, 1.0])),
        xtc_threshold=draw(st.sampled_from([0.02, 0.2])),
        xtc_special_tokens=draw(st.sampled_from([None, (), (0, 3), (7, 99)])),
    )


def alone(o: SamplingOptions, key: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        return make_sampler(
            o.temp,
            o.top_p,
            o.min_p,
            o.min_tokens_to_keep,
            o.top_k,
            o.xtc_probability,
            o.xtc_threshold,
            o.xtc_special_tokens,
            key=key,
        )


@settings(max_examples=60, deadline=None)
@given(st.lists(options(), min_size=1, max_size=6), st.integers(0, 2**31))
def test_R28_each_row_draws_what_it_would_alone(rows: list[SamplingOptions], seed: int) -> None:
    rng = np.random.default_rng(seed)
    together = RowSampler(rows)
    samplers = [alone(o, key) for key, o in enumerate(rows)]
    for step in range(3):
        logits = rng.normal(0, 3, (len(rows), SIZE))
        if step == 1:
            logits = np.round(logits)  # ties
        x = mx.array(logits.astype(np.float32))
        x = x - mx.logsumexp(x, axis=-1, keepdims=True)
        before = x.tolist()
        keys = mx.stack([KeyStream(key).at(step) for key in range(len(rows))])
        expected = [sampler(x[i : i + 1]).item() for i, sampler in enumerate(samplers)]
        assert together(x, keys).tolist() == expected
        assert x.tolist() == before


def test_greedy_rows_take_no_key() -> None:
    sampler = RowSampler([SamplingOptions(), SamplingOptions()])
    assert sampler.greedy
    assert sampler(mx.array([[0.0, 1.0], [1.0, 0.0]]), mx.zeros((0, 2))).tolist() == [1, 0]


def test_a_row_that_the_vocabulary_makes_wrong_is_named_and_leaves_the_others() -> None:
    sampler = RowSampler([SamplingOptions(temp=1, top_k=2), SamplingOptions(temp=1, top_k=9)])
    (row,) = sampler.errors(4)
    assert row == 1
    assert "(0, 4)" in str(sampler.errors(4)[1])
    keys = mx.stack([KeyStream(1).at(0), KeyStream(2).at(0)])
    x = mx.array([[0.0, 1.0, 2.0, 3.0]] * 2)
    assert sampler(x, keys)[0].item() == make_sampler(temp=1, top_k=2, key=1)(x[:1]).item()
