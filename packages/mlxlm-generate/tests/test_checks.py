import operator
from typing import Any

import pytest
from mlxlm_generate import InvalidOption, InvalidPrompt
from mlxlm_generate.checks import check_max_tokens, check_prefill_step_size
from mlxlm_generate.prompt import token_array


class Whole:
    """An integer of another library, as NumPy's: MLX takes none in a list."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __lt__(self, other: int) -> bool:
        return self.value < other


@pytest.mark.parametrize("value", [2.5, 3.0, "3", None, -2])
def test_max_tokens_is_a_whole_number(value: Any) -> None:
    with pytest.raises(InvalidOption, match="max_tokens=.*whole number"):
        check_max_tokens(value)


@pytest.mark.parametrize("value", [1.5, "8", None, 0])
def test_prefill_step_size_is_a_whole_number(value: Any) -> None:
    with pytest.raises(InvalidOption, match="prefill_step_size=.*whole number"):
        check_prefill_step_size(value)


def test_whole_numbers_of_other_types_are_taken() -> None:
    check_max_tokens(Whole(3))
    assert operator.index(Whole(3)) == 3


@pytest.mark.parametrize("prompt", [None, 5])
def test_a_prompt_that_is_no_sequence_is_told(prompt: Any) -> None:
    with pytest.raises(InvalidPrompt, match="one sequence of token ids"):
        token_array(prompt)
