import gc
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import Mask, attend_in_blocks, create_causal_mask

BATCH, KV, SHARED, LENGTH, SIZE = 2, 3, 2, 5, 9
Q = mx.random.normal((BATCH, KV * SHARED, LENGTH, 8), key=mx.random.key(0))
K = mx.random.normal((BATCH, KV, SIZE, 8), key=mx.random.key(1))
V = mx.random.normal((BATCH, KV, SIZE, 8), key=mx.random.key(2))
SINKS = mx.random.normal((KV * SHARED,), key=mx.random.key(3))
LAST = create_causal_mask(LENGTH, SIZE - LENGTH)
MASKS: dict[str, Any] = {
    "none": None,
    "causal": "causal",
    "two": LAST,
    "rows": mx.random.uniform(shape=(BATCH, 1, LENGTH, SIZE), key=mx.random.key(4)) > 0.3,
    "heads": mx.random.normal((KV * SHARED, LENGTH, SIZE), key=mx.random.key(5)),
    "one": mx.random.normal((1, 1, 1, SIZE), key=mx.random.key(6)),
}


def attend(q: mx.array, k: mx.array, v: mx.array, mask: Mask, sinks: Any) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=mask, sinks=sinks)


@settings(max_examples=60, deadline=None)
@given(
    mask=st.sampled_from(sorted(MASKS)),
    budget=st.sampled_from([1, 2 * SIZE, 7 * SIZE, 31 * SIZE, 1000]),
    rows=st.sampled_from([None, 1, 2, 64]),
    sinks=st.booleans(),
)
def test_blocks_give_what_the_whole_gives(
    mask: str, budget: int, rows: int | None, sinks: bool
) -> None:
    used = SINKS if sinks else None
    seen = []

    def recorded(q: mx.array, k: mx.array, v: mx.array, mask: Mask, sinks: Any) -> mx.array:
        seen.append((q.shape, k.shape))
        return attend(q, k, v, mask, sinks)

    out = attend_in_blocks(recorded, Q, K, V, MASKS[mask], used, max_scores=budget, max_rows=rows)
    np.testing.assert_allclose(out, attend(Q, K, V, MASKS[mask], used), atol=1e-6)
    for (batch, heads, length, _), (_, kv_heads, size, _) in seen:
        assert batch * heads * length * size <= max(budget, SHARED * SIZE)
        assert length <= (rows or LENGTH)
        assert heads == kv_heads * SHARED


def test_a_causal_block_gets_no_later_keys() -> None:
    sizes = []

    def recorded(q: mx.array, k: mx.array, v: mx.array, mask: Mask, sinks: Any) -> mx.array:
        sizes.append(k.shape[2])
        return attend(q, k, v, mask, sinks)

    attend_in_blocks(recorded, Q, K, V, "causal", max_scores=1 << 20, max_rows=2)
    assert sizes == [6, 8, 9]


def test_packed_keys_are_cut_whole() -> None:
    packed: Any = mx.quantize(mx.tile(K, (1, 1, 1, 8)), group_size=32, bits=8)
    shapes = []

    def recorded(q: mx.array, k: Any, v: Any, mask: Mask, sinks: Any) -> mx.array:
        shapes.append([part.shape[:3] for part in k])
        return q

    attend_in_blocks(recorded, Q, packed, packed, "causal", max_scores=1, max_rows=3)
    assert shapes[0] == [(1, 1, 5)] * 3
    assert len(shapes) == BATCH * KV * LENGTH


def test_scores_of_one_block_exist_at_a_time() -> None:
    """The peak is that of a few blocks, though nothing is evaluated on the way."""
    q = mx.random.normal((1, 4, 1024, 64), key=mx.random.key(0))
    mx.eval(q)

    def peak(budget: int) -> int:
        mx.reset_peak_memory()
        gc.collect()
        before = mx.get_active_memory()
        mx.eval(attend_in_blocks(attend, q, q, q, None, max_scores=budget))
        return mx.get_peak_memory() - before

    scores = 4 * 1024 * 1024
    assert peak(scores) > 4 * scores
    assert peak(scores // 32) < 4 * scores // 2


def test_an_unknown_mask_is_an_error() -> None:
    full: Any = "full"
    with pytest.raises(ValueError, match='mask must be an array, "causal" or None, not'):
        attend_in_blocks(attend, Q, K, V, full, max_scores=1 << 20)
