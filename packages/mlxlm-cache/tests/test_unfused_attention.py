from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache.unfused_attention import matmul, unfused_attention

Q = mx.random.normal((2, 4, 5, 16), key=mx.random.key(0))
K = mx.random.normal((2, 2, 9, 16), key=mx.random.key(1))
V = mx.random.normal((2, 2, 9, 8), key=mx.random.key(2))
CAUSAL = np.tril(np.ones((5, 9), dtype=bool), 4)


@pytest.mark.parametrize("sinks", [None, mx.array([0.0, 1.0, -2.0, 4.0])])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "additive"])
def test_it_is_attention(
    mask: str, sinks: mx.array | None, attention: Callable[..., np.ndarray]
) -> None:
    added = np.where(CAUSAL, 0.5, -1e9).astype(np.float32)
    passed, meant = {
        "none": (None, None),
        "causal": ("causal", CAUSAL),
        "bool": (mx.array(CAUSAL), CAUSAL),
        "additive": (mx.array(added), added),
    }[mask]
    out = unfused_attention(Q, K, V, passed, sinks, scale=0.3, score=None, product=matmul)  # type: ignore[arg-type]
    expected = attention(Q, K, V, 0.3, meant, None if sinks is None else np.array(sinks))
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_a_score_function_gets_scaled_scores() -> None:
    seen = []

    def score(scores: mx.array) -> mx.array:
        seen.append(scores)
        return scores * 0

    out = unfused_attention(Q, K, V, None, None, scale=0.3, score=score, product=matmul)
    keys, values = mx.repeat(K, 2, axis=1), mx.repeat(V, 2, axis=1)
    np.testing.assert_allclose(seen[0], Q @ keys.swapaxes(-1, -2) * 0.3, atol=1e-5)
    np.testing.assert_allclose(
        out, mx.broadcast_to(values.mean(2, keepdims=True), out.shape), atol=1e-5
    )
