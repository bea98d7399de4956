import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlxlm_generate import InvalidOption, NGramDrafter


def after(tokens: list[int], limit: int, longest: int = 3, shortest: int = 2) -> list[int]:
    drafter = NGramDrafter(longest, shortest)
    drafter.extend(tokens)
    return drafter.propose(limit)


def test_copies_what_followed_the_latest_occurrence() -> None:
    assert after([1, 2, 3, 1, 2, 4, 5, 1, 2], 2) == [4, 5]


def test_a_longer_match_comes_first() -> None:
    assert after([9, 1, 2, 3, 7, 1, 2, 4, 9, 1, 2], 1) == [3]


def test_a_period_repeats() -> None:
    assert after([1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]


def test_nothing_where_the_last_tokens_are_new() -> None:
    assert after([], 3) == after([1], 3) == after([1, 2, 3], 3) == []


@pytest.mark.parametrize(("longest", "shortest"), [(0, 0), (2, 3)])
def test_sizes_that_make_no_sense(longest: int, shortest: int) -> None:
    with pytest.raises(InvalidOption, match="longest="):
        NGramDrafter(longest, shortest)


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 8))
def test_equals_a_search_of_the_text(tokens: list[int], limit: int) -> None:
    expected: list[int] = []
    for size in (3, 2):
        starts = [i for i in range(len(tokens) - size) if tokens[i : i + size] == tokens[-size:]]
        if starts:
            text = list(tokens)
            for i in range(limit):
                text.append(text[starts[-1] + size + i])
            expected = text[len(tokens) :]
            break
    assert after(tokens, limit) == expected
