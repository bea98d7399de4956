import gc

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import TokenBuffer


@settings(max_examples=40, deadline=None)
@given(acts=st.lists(st.integers(-5, 300), max_size=10))
def test_it_is_a_list(acts: list[int]) -> None:
    buffer, expected = TokenBuffer(), list[int]()
    for act in acts:
        if act < 0:
            assert buffer.trim(-act) == min(-act, len(expected))
            expected = expected[: max(0, len(expected) + act)]
        else:
            new = list(range(len(expected), len(expected) + act))
            expected += new
            assert buffer.update_and_fetch(mx.array(new, dtype=mx.uint32)).tolist() == expected
        assert len(buffer) == len(expected)
        assert buffer.tokens.tolist() == expected
        assert buffer.tokens.dtype == mx.int32


def test_ids_may_be_a_list() -> None:
    buffer = TokenBuffer([1, 2])
    assert buffer.update_and_fetch([3]).tolist() == [1, 2, 3]
    assert buffer.state.tolist() == [1, 2, 3]


def test_appending_keeps_the_buffer() -> None:
    buffer = TokenBuffer(mx.arange(10))
    mx.eval(buffer.state)
    gc.collect()
    before = mx.get_active_memory()
    for token in range(200):
        mx.eval(buffer.update_and_fetch(mx.array([token])))
    assert mx.get_active_memory() <= before + 1024


def test_trim_of_a_negative_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot trim -1"):
        TokenBuffer([1]).trim(-1)
