from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import KVCache
from mlxlm_models.layers.strided import StridedAttentionSpec

LENGTH = 23
SPEC: dict[str, Any] = {
    "hidden_size": 16,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 4,
    "rope": None,
    "fused": "groups",
    "block": 3,
    "near": 2,
    "stride": 3,
}


def seen_by(head: int, same: bool) -> np.ndarray:
    blocks = np.arange(LENGTH) // 3
    far = (blocks + (0 if same else head) + 1) % 3 == 0
    return np.tri(LENGTH, dtype=bool) & ((blocks[:, None] - blocks < 2) | far)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("sizes", [[LENGTH], [10, 12, 1]])
def test_each_head_sees_near_blocks_and_every_third(same: bool, sizes: list[int]) -> None:
    attention: Any = StridedAttentionSpec(**SPEC, same=same).build()
    queries, keys, values = (mx.random.normal((1, n, LENGTH, 4)) for n in (4, 2, 2))
    cache, start, parts = KVCache(), 0, []
    for size in sizes:
        part = slice(start, start + size)
        mask = cache.make_mask(size, return_array=True)
        args = (queries[:, :, part], keys[:, :, part], values[:, :, part])
        parts.append(attention.look(*args, mask, cache)[0])
        start += size
    found = np.array(mx.concatenate(parts, axis=2))[0]
    q, k, v = (np.array(a, np.float64)[0] for a in (queries, keys, values))
    for head in range(4):
        scores = np.where(seen_by(head, same), q[head] @ k[head // 2].T / 2, -np.inf)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        expected = shares / shares.sum(axis=-1, keepdims=True) @ v[head // 2]
        assert np.allclose(found[head], expected, atol=1e-5), head


def test_a_short_text_needs_no_more_than_the_causal_mask() -> None:
    attention: Any = StridedAttentionSpec(**SPEC).build()
    mask = mx.ones((6, 6), mx.bool_)
    assert attention._mask(mask, mx.zeros((1, 2, 6, 4)), mx.zeros((1, 4, 6, 4)), None) is mask
