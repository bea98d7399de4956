from mlxlm_cache.device import preload_blas

preload_blas()  # before MLX is imported

from collections.abc import Callable, Sequence  # noqa: E402

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from mlxlm_cache import Cache, KVCache  # noqa: E402

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


def _feed(cache: Sequence[Cache], tokens: Sequence[int]) -> None:
    for layer, c in enumerate(cache):
        positions = mx.arange(c.offset, c.offset + len(tokens), dtype=mx.float32)
        x = mx.array(list(tokens), dtype=mx.float32) + positions / 2**14 + layer * 1000
        x = mx.broadcast_to(x[None, None, :, None], (1, 1, len(tokens), 32))
        c.update_and_fetch(x, -x)
    mx.eval([c.state for c in cache])


def _stack(tokens: Sequence[int], kind: Callable[[], Cache] = KVCache) -> list[Cache]:
    cache = [kind() for _ in range(4)]
    _feed(cache, tokens)
    return cache


def _holds(cache: Sequence[Cache] | None, tokens: Sequence[int]) -> bool:
    assert cache is not None
    return all(
        c.offset == len(tokens) and mx.array_equal(mx.stack(c.state), mx.stack(o.state)).item()
        for c, o in zip(cache, _stack(tokens, type(cache[0])), strict=True)
    )


@pytest.fixture(scope="session")
def feed() -> Callable[[Sequence[Cache], Sequence[int]], None]:
    """Append keys that tell the token, its position and its layer."""
    return _feed


@pytest.fixture(scope="session")
def stack() -> Callable[..., list[Cache]]:
    """Return four caches of a kind that have been fed some tokens."""
    return _stack


@pytest.fixture(scope="session")
def holds() -> Callable[[Sequence[Cache] | None, Sequence[int]], bool]:
    """Tell whether caches that hold every token have been fed just these, bit for bit."""
    return _holds


@pytest.fixture(scope="session")
def attention() -> Callable[..., Array]:
    """Attention by its definition, in float64."""
    return _attention


@pytest.fixture(scope="session")
def tokens() -> Callable[..., mx.array]:
    return _tokens
