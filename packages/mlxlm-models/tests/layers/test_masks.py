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


class Batch:
    """A cache of sequences padded on the left, of 6 and 3 tokens so far."""

    offset = mx.array([6, 3])

    def make_mask(self, length: int, **_: Any) -> mx.array:
        padding = mx.array([0, 3])[:, None, None, None]
        keys = mx.arange(6 + length)
        return (keys <= mx.arange(6, 6 + length)[:, None]) & (keys >= padding)


def test_chunks_of_a_batch_count_from_each_first_token() -> None:
    mask = plan([replace(FULL, chunk=4)], 2, [Batch()])[0]
    assert mask.shape == (2, 1, 2, 8)
    assert mask[0, 0].sum(axis=1).tolist() == [3, 4]
    assert mask[1, 0].sum(axis=1).tolist() == [4, 1]


def test_a_layer_without_attention_needs_no_mask() -> None:
    assert plan([None, FULL], 4) == [None, "causal"]
