from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, RotatingKVCache, create_attention_mask
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.masks import MaskPlan

FULL = AttentionSpec(hidden_size=8, heads=1, kv_heads=1, head_dim=8, rope=None)
WINDOW = replace(FULL, window=4)
CAPPED = replace(FULL, soft_cap=2.0)


def plan(specs: Any, length: int, caches: Any = None) -> Any:
    return MaskPlan(specs).masks(mx.zeros((1, length, 8)), caches or [None] * len(specs))


def test_layers_of_one_kind_share_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(*args: Any, **options: Any) -> Any:
        made.append(options)
        return create_attention_mask(*args, **options)

    monkeypatch.setattr("mlxlm_models.layers.masks.create_attention_mask", counted)
    result = plan([FULL, WINDOW, FULL, WINDOW, CAPPED], 6)
    assert len(made) == 3
    assert result[0] == result[2] == "causal"
    assert result[1] is result[3]
    assert result[4].shape == (6, 6)


def test_windows_hide_what_lies_behind_them() -> None:
    mask = plan([WINDOW], 6)[0]
    assert mask.sum(axis=1).tolist() == [1, 2, 3, 4, 4, 4]


def test_no_mask_for_a_single_token() -> None:
    full, window = KVCache(), RotatingKVCache(4)
    for cache in (full, window):
        cache.update_and_fetch(mx.zeros((1, 1, 6, 8)), mx.zeros((1, 1, 6, 8)))
    assert plan([FULL, CAPPED, WINDOW], 1, [full, full, window]) == [None, None, None]


def test_chunks_hide_the_other_chunks() -> None:
    chunked = replace(FULL, chunk=4)
    assert plan([chunked], 4) == ["causal"]
    mask = plan([chunked], 6)[0]
    assert mask.sum(axis=1).tolist() == [1, 2, 3, 4, 1, 2]
    cache = KVCache()
    cache.update_and_fetch(mx.zeros((1, 1, 6, 8)), mx.zeros((1, 1, 6, 8)))
    step = plan([chunked], 1, [cache])[0]
    assert step.tolist() == [[False, False, False, False, True, True, True]]
    more = plan([chunked], 3, [cache])[0]
    assert more.sum(axis=1).tolist() == [3, 4, 1]


def test_a_cache_of_chunks_gives_its_own_mask() -> None:
    class Chunks:
        chunk_size, offset = 4, mx.array([6, 3])

        def make_mask(self, length: int, **_: Any) -> mx.array:
            return mx.full((2, 1, length, 5), True)

    assert plan([replace(FULL, chunk=4)], 2, [Chunks()])[0].shape == (2, 1, 2, 5)


def test_a_batch_that_knows_no_chunks_is_refused() -> None:
    class Batch:
        offset = mx.array([6, 3])

        def make_mask(self, length: int, **_: Any) -> None:
            return None

    with pytest.raises(TypeError, match="Batch cannot serve chunked attention"):
        plan([replace(FULL, chunk=4)], 2, [Batch()])


def test_a_layer_without_attention_needs_no_mask() -> None:
    assert plan([None, FULL], 4) == [None, "causal"]
