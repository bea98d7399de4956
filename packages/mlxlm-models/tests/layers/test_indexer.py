from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import KVCache, create_causal_mask
from mlxlm_models.layers import indexer
from mlxlm_models.layers.indexer import IndexerSpec
from mlxlm_models.layers.rope import RopeSpec

SPEC = IndexerSpec(hidden_size=12, query_size=8, heads=6, head_dim=32, top_k=3, rope=RopeSpec(16))
X = mx.random.normal((2, 9, 12), key=mx.random.key(0))
LATENT = mx.random.normal((2, 9, 8), key=mx.random.key(1))
CAUSAL = create_causal_mask(9)


def built(**changes: Any) -> Any:
    mx.random.seed(2)
    return replace(SPEC, **changes).build()


def places(chosen: mx.array, row: int, query: int) -> set[int]:
    found: Any = chosen[row, query].tolist()
    return set(found)


def expected_scores(layer: Any) -> np.ndarray:
    """The paper's sum over heads, in float64, of queries and keys as the layer rotates them."""
    queries = layer.wq_b(LATENT).reshape(2, 9, 6, 32).transpose(0, 2, 1, 3)
    keys = layer.k_norm(layer.wk(X))[:, None]
    queries, keys = layer._rope(queries, keys)
    q, k = np.array(queries, np.float64), np.array(keys, np.float64)
    weights = np.array(layer.weights_proj(X), np.float64)
    return np.einsum("bhqk,bqh->bqk", np.maximum(q @ k.swapaxes(-1, -2), 0), weights)


def test_the_best_of_what_a_query_sees_are_chosen() -> None:
    layer = built()
    chosen = layer(X, LATENT, CAUSAL, None)
    scores = expected_scores(layer)
    for row in range(2):
        for query in range(3, 9):
            best = np.argsort(-scores[row, query, : query + 1])[:3]
            assert places(chosen, row, query) == set(best.tolist())


def test_a_mask_of_numbers_hides_as_well() -> None:
    layer = built()
    given = mx.where(CAUSAL, 0.0, -mx.inf)[None, None]
    by_number, by_truth = layer(X, LATENT, given, None), layer(X, LATENT, CAUSAL, None)
    assert all(places(by_number, 1, i) == places(by_truth, 1, i) for i in range(3, 9))


def test_where_all_are_chosen_nothing_is_said() -> None:
    assert built(top_k=9)(X, LATENT, CAUSAL, None) is None
    assert built(top_k=8)(X, LATENT, CAUSAL, None) is not None


def test_a_cache_remembers_the_keys() -> None:
    layer = built()
    cache = KVCache()
    whole = layer(X, LATENT, CAUSAL, None)
    layer(X[:, :8], LATENT[:, :8], CAUSAL[:8, :8], cache)
    last = layer(X[:, 8:], LATENT[:, 8:], None, cache)
    assert [places(last, i, 0) for i in range(2)] == [places(whole, i, 8) for i in range(2)]


def test_a_packed_cache_serves_too() -> None:
    layer = built()
    cache = layer.make_cache()
    layer(X[:, :8], LATENT[:, :8], CAUSAL[:8, :8], cache)
    packed = cache.to_quantized(group_size=32, bits=8)
    last = layer(X[:, 8:], LATENT[:, 8:], None, packed)
    assert last.shape == (2, 1, 3)


def test_heads_come_in_parts_where_there_are_many_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = built()
    whole = layer(X, LATENT, CAUSAL, None)
    monkeypatch.setattr(indexer, "MAX_SCORES", 2 * 81 * 4)  # of six heads, four and two
    parts = layer(X, LATENT, CAUSAL, None)
    assert all(places(whole, 0, i) == places(parts, 0, i) for i in range(3, 9))
