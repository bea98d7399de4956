from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import InvalidPrompt, NotSupported
from mlxlm_generate.prompt import Prompt, make_prompt, token_array


@pytest.mark.parametrize("ids", [[1, 2], (1, 2), mx.array([1, 2]), range(1, 3)])
def test_ids_in_any_form(ids: Any) -> None:
    array = token_array(ids)
    assert array.dtype == mx.uint32
    assert array.tolist() == [1, 2]


@pytest.mark.parametrize(
    "ids", [[[1, 2]], [-1], [1.5], ["a"], mx.array([[1, 2]]), mx.array([1.0, 2.0])]
)
def test_anything_else_is_an_error(ids: Any) -> None:
    with pytest.raises(InvalidPrompt, match="one sequence of token ids"):
        token_array(ids)


def test_slices_go_with_their_embeddings() -> None:
    part = Prompt(mx.arange(4), mx.arange(8).reshape(4, 2))[1:3]
    assert part.tokens.tolist() == [1, 2]
    assert part.embeddings is not None
    assert part.embeddings.tolist() == [[2, 3], [4, 5]]
    alone = Prompt(mx.array([], dtype=mx.uint32), mx.arange(8).reshape(4, 2))
    assert len(alone) == 4
    assert len(alone[1:3]) == 2


def test_embeddings_must_fit(model: Any) -> None:
    rows = mx.zeros((3, 64))
    assert len(make_prompt(model, [1, 2, 3], rows)) == 3
    assert len(make_prompt(model, [], rows)) == 3
    for tokens, embeddings in (([1, 2], rows), ([1, 2, 3], rows[None])):
        with pytest.raises(InvalidPrompt, match="one row for each token"):
            make_prompt(model, tokens, embeddings)
    with pytest.raises(InvalidPrompt, match="empty"):
        make_prompt(model, [], rows[:0])


def test_model_without_embeddings_says_so(oracle: Any) -> None:
    with pytest.raises(NotSupported, match="Oracle takes no input_embeddings"):
        make_prompt(oracle([1], 1), [1], mx.zeros((1, 4)))
