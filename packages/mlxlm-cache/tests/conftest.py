from mlxlm_cache.device import preload_blas

preload_blas()  # before MLX is imported

from collections.abc import Callable  # noqa: E402

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

Array = np.ndarray


def _attention(
    queries: Array,
    keys: Array,
    values: Array,
    scale: float,
    mask: Array | None = None,
    sinks: Array | None = None,
) -> Array:
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (queries, keys, values))
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat(shared, axis=1), v.repeat(shared, axis=1)
    scores = scale * q @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if sinks is not None:
        column = np.broadcast_to(sinks[None, :, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([scores, column], axis=-1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out: Array = weights[..., : k.shape[2]] @ v
    return out


def _tokens(start: int, length: int, size: int = 32) -> mx.array:
    """Return (1, 2, length, size) float32 whose first feature is the position."""
    rest = mx.random.normal((1, 2, length, size - 1), key=mx.random.key(start))
    position = mx.broadcast_to(mx.arange(start, start + length)[:, None], (1, 2, length, 1))
    return mx.concatenate([position.astype(mx.float32), rest], axis=-1)


@pytest.fixture(scope="session")
def attention() -> Callable[..., Array]:
    """Attention by its definition, in float64."""
    return _attention


@pytest.fixture(scope="session")
def tokens() -> Callable[..., mx.array]:
    return _tokens
