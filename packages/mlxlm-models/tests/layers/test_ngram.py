from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import ArraysCache
from mlxlm_models.layers.ngram import NgramEmbedding, NgramSpec
from mlxlm_models.registry import get_architecture

SPEC = NgramSpec(vocab_size=9, hidden_size=8, longest=3, tables=2, rows=27, ends=(2,))
TOKENS = mx.array([[4, 5, 2, 7, 8, 1]])


def expected(embedding: Any, at: int, gram: list[int]) -> mx.array:
    """Return the embedding of the last of TOKENS[:at + 1], whose n-grams reach back to `gram`."""
    tokens = TOKENS[0].tolist()
    x = embedding.word_embeddings.weight[tokens[at]]
    for index in range(4):
        rows = 27 + 2 * index + 1
        before = gram[: index // 2 + 1]
        hashed = tokens[at] + sum(t * 9 ** (i + 1) for i, t in enumerate(before))
        found = embedding.embedders[index].weight[hashed % rows]
        x = x + embedding.post_projs[index](found)
    return x / 5


@pytest.mark.parametrize(
    ("at", "gram"),
    [(0, []), (1, [4]), (2, [5, 4]), (3, []), (4, [7]), (5, [8, 7])],
)
def test_n_grams_stop_at_the_end_of_a_text(at: int, gram: list[int]) -> None:
    embedding = NgramEmbedding(SPEC)
    assert mx.allclose(embedding(TOKENS)[0, at], expected(embedding, at, gram), atol=1e-6).item()


@pytest.mark.parametrize("sizes", [[1] * 6, [2, 4], [5, 1]])
def test_the_state_carries_tokens_over(sizes: list[int]) -> None:
    embedding, state, start, parts = NgramEmbedding(SPEC), ArraysCache(1), 0, []
    for size in sizes:
        parts.append(embedding(TOKENS[:, start : start + size], state))
        start += size
    assert mx.allclose(mx.concatenate(parts, axis=1), embedding(TOKENS), atol=1e-6).item()
    assert state[0].tolist() == [[8, 1]]


def test_tokens_may_be_taken_back() -> None:
    embedding, state = NgramEmbedding(SPEC), ArraysCache(1)
    embedding(TOKENS[:, :2], state)
    state.checkpoint(4)
    embedding(TOKENS[:, 2:], state)
    state.trim(2)
    again = embedding(TOKENS[:, 4:], state)
    assert mx.allclose(again, embedding(TOKENS)[:, 4:], atol=1e-6).item()


def test_embeddings_that_are_given_move_the_state_too(golden: Any) -> None:
    data = golden("longcat_flash_ngram")
    model: Any = get_architecture("longcat_flash_ngram").create(data.config)[0]
    cache = model.make_cache()
    model(data.tokens, cache, mx.zeros((1, 24, 32)))
    assert cache[0][0].tolist() == data.tokens[:, -2:].tolist()
    with pytest.raises(ValueError, match="1 layers for a model of 1 and its n-grams"):
        model(data.tokens, [None])
