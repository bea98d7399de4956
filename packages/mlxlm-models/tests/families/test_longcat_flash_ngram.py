from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"emb_neighbor_num": 1}, "'emb_neighbor_num': 1 is no n-gram's length"),
        ({"emb_split_num": 0}, "'emb_split_num': 0 tables"),
        ({"tie_word_embeddings": True}, "'tie_word_embeddings'"),
    ],
)
def test_n_grams_that_cannot_be_are_told(changes: Any, problem: str, golden: Any) -> None:
    with pytest.raises(ConfigError, match=problem):
        get_architecture("longcat_flash_ngram").create(
            golden("longcat_flash_ngram").config | changes
        )


@pytest.mark.parametrize("names", [["embed_tokens"], ["ngram_embeddings.word_embeddings"], None])
def test_either_name_of_the_embeddings_is_read(names: Any, golden: Any) -> None:
    """Public checkpoints may hold one matrix under two names."""
    arch = get_architecture("longcat_flash_ngram")
    _, config = arch.create(golden("longcat_flash_ngram").config)
    names = names or ["embed_tokens", "ngram_embeddings.word_embeddings"]
    weights = {f"model.{name}.weight": mx.zeros((2, 2)) for name in names}
    assert list(arch.sanitize(weights, config)) == ["model.ngram_embeddings.word_embeddings.weight"]
