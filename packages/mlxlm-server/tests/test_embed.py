from typing import Any

import mlx.core as mx
import pytest
from mlxlm_server.embed import Pooling, embeddings


def run(work: Any, limit: int) -> tuple[Any, int]:
    """Do a work to its end; return what it returns, and in how many pieces."""
    next(work)
    pieces = 0
    while True:
        pieces += 1
        try:
            work.send(limit)
        except StopIteration as end:
            return end.value, pieces


def directly(model: Any, row: list[int], pooling: Pooling) -> mx.array:
    states = model.model(mx.array([row]))[0].astype(mx.float32)
    pooled = states[-1] if pooling == "last" else states.mean(axis=0)
    return pooled / mx.linalg.norm(pooled)


ROWS = [[5, 6, 7], [9], [1] * 40, list(range(2, 30)), [8, 7, 6, 5], [9]]


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize(("limit", "pieces"), [(4096, 1), (64, 3), (16, 9)])
def test_however_it_is_cut_each_vector_is_that_of_its_text_alone(
    tiny: Any, pooling: Pooling, limit: int, pieces: int
) -> None:
    model = tiny[0]
    vectors, took = run(embeddings(ROWS, pooling, None)(model), limit)
    assert took <= pieces
    for row, vector in zip(ROWS, vectors, strict=True):
        expected = directly(model, row, pooling)
        assert mx.allclose(mx.array(vector), expected, atol=1e-4), row


def test_fewer_dimensions_are_the_first_ones_with_length_1(tiny: Any) -> None:
    (whole,), _ = run(embeddings([[5, 6]], "mean", None)(tiny[0]), 100)
    (cut,), _ = run(embeddings([[5, 6]], "mean", 4)(tiny[0]), 100)
    first = mx.array(whole[:4])
    assert mx.allclose(mx.array(cut), first / mx.linalg.norm(first), atol=1e-5)


def test_R34_dimensions_that_there_are_not_and_models_without_states_are_errors(tiny: Any) -> None:
    with pytest.raises(ValueError, match="dimensions=100000"):
        run(embeddings([[5]], "last", 100000)(tiny[0]), 100)
    with pytest.raises(ValueError, match="no hidden states"):
        run(embeddings([[5]], "last", None)(lambda tokens, cache=None: tokens), 100)
