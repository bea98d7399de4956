from dataclasses import asdict

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_sample import (
    ProcessorOptions,
    RowProcessors,
    combined_options,
    make_frequency_penalty,
    make_logit_bias,
    make_logits_processors,
    make_repetition_penalty,
)

SIZE = 11
Context = st.sampled_from([None, 1, 3, 20])
Ids = st.lists(st.integers(-1, SIZE + 1), max_size=9)


@st.composite
def options(draw: st.DrawFn) -> ProcessorOptions:
    return ProcessorOptions(
        logit_bias=draw(st.sampled_from([None, {}, {3: 2.5}, {0: -float("inf"), 9: -1.0}])),
        repetition_penalty=draw(st.sampled_from([None, 0, 1.0, 1.3, 0.7])),
        repetition_context_size=draw(Context),
        presence_penalty=draw(st.sampled_from([None, 0.0, 0.4, -0.8])),
        presence_context_size=draw(Context),
        frequency_penalty=draw(st.sampled_from([None, 0.0, 0.3, -0.6])),
        frequency_context_size=draw(Context),
    )


Rows = st.lists(st.tuples(options(), Ids), min_size=1, max_size=5)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@settings(max_examples=40, deadline=None)
@given(rows=Rows, seed=st.integers(0, 2**31))
def test_R30_each_row_is_processed_as_it_would_be_alone(
    dtype: mx.Dtype, rows: list[tuple[ProcessorOptions, list[int]]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    together = RowProcessors([o for o, _ in rows], [tokens for _, tokens in rows])
    histories = [list(tokens) for _, tokens in rows]
    alone = [make_logits_processors(**asdict(o)) for o, _ in rows]
    for _ in range(3):
        logits = mx.array(rng.normal(0, 3, (len(rows), SIZE)).astype(np.float32)).astype(dtype)
        given = logits.tolist()
        processed = together(logits)
        assert processed.dtype == dtype
        assert logits.tolist() == given
        for i, processors in enumerate(alone):
            row = logits[i : i + 1]
            for process in processors:
                row = process(mx.array(histories[i], dtype=mx.int32), row)
            assert processed[i].tolist() == row[0].tolist(), rows[i]
        tokens = rng.integers(0, SIZE, len(rows))
        together.append(mx.array(tokens))
        for history, token in zip(histories, tokens.tolist(), strict=True):
            history.append(token)
        mx.eval(together.state)


def test_a_row_that_takes_no_token_keeps_its_latest() -> None:
    o = ProcessorOptions(presence_penalty=1.0, presence_context_size=2)
    rows = RowProcessors([o, o], [[1, 2], [1, 2]])
    rows.append(mx.array([3, -1]))
    assert rows(mx.zeros((2, 4))).tolist() == [[0, 0, -1, -1], [0, -1, -1, 0]]


def test_a_bias_outside_of_the_vocabulary_is_the_error_of_its_row() -> None:
    rows = RowProcessors(
        [ProcessorOptions({3: 1.0}), ProcessorOptions({4: 1.0}), ProcessorOptions()], [[]] * 3
    )
    errors = rows.errors(4)
    assert list(errors) == [1]
    assert "token 4, outside the vocabulary of 4" in str(errors[1])
    assert rows(mx.zeros((3, 4))).tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_options_are_those_that_made_the_processors() -> None:
    o = ProcessorOptions({1: 2.0}, 1.1, 5, 0.5, None, -0.5, 7)
    assert combined_options(make_logits_processors(**asdict(o))) == o
    assert combined_options([]) == ProcessorOptions()


def test_processors_that_are_no_options_have_none() -> None:
    bias, penalty = make_logit_bias({1: 1.0}), make_repetition_penalty(1.2)
    assert combined_options([penalty, bias]) is None
    assert combined_options([penalty, penalty]) is None
    assert combined_options([bias, lambda tokens, logits: logits]) is None
    assert combined_options([bias, make_frequency_penalty(0.0)]) == ProcessorOptions(
        {1: 1.0}, frequency_penalty=0.0
    )
