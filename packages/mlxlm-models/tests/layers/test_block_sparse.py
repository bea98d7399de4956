from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import CacheList, KVCache, create_causal_mask
from mlxlm_models.layers import block_sparse
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block_sparse import BlockSparseAttentionSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec

SPEC = BlockSparseAttentionSpec(
    hidden_size=16,
    heads=4,
    kv_heads=2,
    head_dim=8,
    rope=RopeSpec(8),
    index_dim=8,
    index_norm=NormSpec(1e-6),
    block_size=3,
    top_blocks=2,
    local_blocks=1,
)
LENGTH = 11
X = mx.random.normal((2, LENGTH, 16), key=mx.random.key(0))
CAUSAL = create_causal_mask(LENGTH)


def expected_blocks(layer: Any, row: int, head: int, query: int) -> set[int]:
    """By the definition, in float64: block of the query, then the best of those before it."""
    q = layer.index_q_norm(layer.index_q_proj(X).reshape(2, LENGTH, 2, 8)).transpose(0, 2, 1, 3)
    k = layer.index_k_norm(layer.index_k_proj(X))[:, None]
    q, k = (np.array(a, np.float64) for a in layer._rope(q, k))
    scores = k[row, 0, : query + 1] @ q[row, head, query]
    worth = {b: scores[3 * b : 3 * b + 3].max() for b in range(query // 3 + 1)}
    worth[query // 3] = np.inf
    return set(sorted(worth, key=lambda b: -worth[b])[:2])


def test_a_block_is_as_good_as_its_best_key_and_the_own_one_always_chosen() -> None:
    layer: Any = SPEC.build()
    blocks = layer.choose(X, CAUSAL, None).blocks
    for row, head, query in np.ndindex(2, 2, LENGTH):
        seen = set(blocks[row, head, query].tolist()) & set(range(query // 3 + 1))
        assert seen == expected_blocks(layer, row, head, query)


def test_it_is_attention_to_what_was_chosen_for_each_group_of_heads() -> None:
    layer: Any = SPEC.build()
    names = AttentionSpec.__dataclass_fields__
    dense: Any = AttentionSpec(**{name: getattr(SPEC, name) for name in names}).build()
    dense.update({k: v for k, v in layer.parameters().items() if not k.startswith("index")})
    among = layer.choose(X, CAUSAL, None).among(LENGTH)
    exact = dense(X, mx.repeat(among, 2, axis=1))
    assert mx.allclose(layer(X, CAUSAL), exact, atol=1e-5).item()


@pytest.mark.parametrize("sizes", [[LENGTH], [4, 7], [1] * LENGTH, [6, 1, 3, 1]])
def test_steps_and_chunks_are_the_whole(sizes: list[int]) -> None:
    layer: Any = SPEC.build()
    cache, parts, start = layer.make_cache(), [], 0
    assert [type(c) for c in cache] == [KVCache, KVCache]
    for size in sizes:
        mask = None if size == 1 else create_causal_mask(size, start)
        parts.append(layer(X[:, start : start + size], mask, cache))
        start += size
    together = mx.concatenate(parts, axis=1)
    assert mx.allclose(together, layer(X, CAUSAL), atol=1e-5).item()


@pytest.mark.parametrize("length", [1, 4])
def test_a_mask_of_numbers_hides_as_well(length: int) -> None:
    layer: Any = SPEC.build()
    cache = layer.make_cache()
    layer(X[:, :-length], CAUSAL[:-length, :-length], cache)
    copies = [cache.copy(), cache]
    hidden = CAUSAL[-length:] & (mx.arange(LENGTH) != 4)
    by_truth, by_number = (
        layer(X[:, -length:], mask, copy)
        for mask, copy in zip((hidden, mx.where(hidden, 0.0, -mx.inf)), copies, strict=True)
    )
    assert mx.allclose(by_truth, by_number, atol=1e-6).item()


def test_where_all_blocks_are_chosen_nothing_is() -> None:
    assert replace(SPEC, top_blocks=4).build().choose(X, CAUSAL, None) is None
    assert replace(SPEC, top_blocks=3).build().choose(X, CAUSAL, None) is not None


def test_queries_come_in_parts_where_there_are_many_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer: Any = SPEC.build()
    whole = layer(X, CAUSAL)
    monkeypatch.setattr(block_sparse, "MAX_SCORES", 2 * 2 * LENGTH * 4)  # four queries
    assert mx.allclose(layer(X, CAUSAL), whole, atol=1e-6).item()


@pytest.mark.parametrize("length", [1, 4])
def test_packed_caches_serve(length: int) -> None:
    layer: Any = replace(SPEC, head_dim=32, index_dim=32, rope=RopeSpec(32)).build()
    cache = layer.make_cache()
    layer(X[:, :-length], CAUSAL[:-length, :-length], cache)
    packed = CacheList(*(c.to_quantized(group_size=32, bits=8) for c in cache))
    mask = None if length == 1 else CAUSAL[-length:]
    exact = layer(X, CAUSAL)[:, -length:]
    assert mx.allclose(layer(X[:, -length:], mask, packed), exact, atol=0.05).item()


def test_the_index_is_divided_with_the_heads_that_it_serves() -> None:
    plan = SPEC.plan()
    assert plan.shards["index_q_proj"] == plan.shards["k_proj"]
    assert "index_k_proj" not in plan.shards
    half: Any = SPEC.divided(2).build()
    assert half.index_q_proj.weight.shape == (8, 16)
