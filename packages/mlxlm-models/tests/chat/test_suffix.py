import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.chat.suffix import PromptMismatchError, common_prefix_length, prompt_suffix

tokens = st.lists(st.integers(0, 3))


def decode(ids: list[int]) -> str:
    return "".join("abcdefghijklmnopqrstuvwxyz"[i] for i in ids)


@settings(deadline=None)
@given(cached=tokens, new=tokens)
def test_R21_a_continuation_gives_what_is_new(cached: list[int], new: list[int]) -> None:
    assert prompt_suffix(cached, cached + new, decode) == new


@settings(deadline=None)
@given(cached=tokens, rendered=tokens)
def test_R21_anything_else_is_an_error(cached: list[int], rendered: list[int]) -> None:
    if rendered[: len(cached)] == cached:
        return
    with pytest.raises(PromptMismatchError) as caught:
        prompt_suffix(cached, rendered, decode)
    position = caught.value.position
    assert cached[:position] == rendered[:position]
    assert cached[position : position + 1] != rendered[position : position + 1]
    assert common_prefix_length(cached, rendered) == position


def test_R21_the_error_shows_where_and_both_texts() -> None:
    with pytest.raises(PromptMismatchError, match=r"from token 2 on.*'abcd'; prompt: 'abxd'"):
        prompt_suffix([0, 1, 2, 3], [0, 1, 23, 3], decode)
    with pytest.raises(PromptMismatchError, match=r"prompt: 'ab' \(ends here\)"):
        prompt_suffix([0, 1, 2], [0, 1], decode)
