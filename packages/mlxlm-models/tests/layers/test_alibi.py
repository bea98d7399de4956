from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache
from mlxlm_models.layers.alibi import biased, slopes
from mlxlm_models.layers.attention import AttentionSpec

SPEC = AttentionSpec(hidden_size=16, heads=4, kv_heads=2, head_dim=4, rope=None, alibi=slopes(4))
X = mx.random.normal((1, 6, 16), key=mx.random.key(0))


def test_slopes_are_those_of_the_paper() -> None:
    assert slopes(8) == tuple(2.0**-i for i in range(1, 9))
    assert slopes(6) == (2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3)
    assert slopes(2, steepest=4) == (2**-2, 2**-4)


def test_far_keys_are_lowered_and_hidden_ones_stay_hidden() -> None:
    heads = mx.array([1.0, 0.5])[:, None, None]
    keys, queries = mx.zeros((1, 1, 3, 4)), mx.zeros((1, 2, 3, 4))
    whole = biased(None, heads, keys, queries)
    assert whole.tolist() == [[[[-2, -1, 0]], [[-1, -0.5, 0]]]]
    masked = biased("causal", heads, keys, queries)
    assert masked.shape == (2, 3, 3)
    assert masked[0, 1].tolist() == [-2, -1, -mx.inf]
    added = biased(mx.array([[0.0, 5.0, 0.0]]), heads, keys, queries)
    assert added[1].tolist() == [[-1, 4.5, 0]]


@pytest.mark.parametrize("quantized", [False, True])
def test_steps_are_the_whole(quantized: bool) -> None:
    spec = replace(SPEC, head_dim=32, hidden_size=16)
    layer: Any = spec.build()
    whole, cache = layer(X, "causal"), KVCache()
    parts: Any = [layer(X[:, :4], cache.make_mask(4, return_array=True), cache)]
    later: Any = cache.to_quantized(group_size=32, bits=8) if quantized else cache
    parts += [layer(X[:, i : i + 1], None, later) for i in (4, 5)]
    error = mx.abs(mx.concatenate(parts, axis=1) - whole).max() / mx.abs(whole).max()
    assert error.item() < (0.03 if quantized else 1e-5)
