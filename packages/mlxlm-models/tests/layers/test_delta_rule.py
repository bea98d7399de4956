from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_models.layers.delta_rule import delta_rule


def recurrence(q: Any, k: Any, v: Any, decay: Any, beta: Any, state: Any) -> tuple[Any, Any]:
    """The definition, token by token, in float64."""
    q, k, v, decay, beta, state = (np.array(a, np.float64) for a in (q, k, v, decay, beta, state))
    found = np.zeros(v.shape)
    for t in range(q.shape[2]):
        state = np.exp(decay[:, :, t])[..., None] * state
        missing = v[:, :, t] - np.einsum("bhkv,bhk->bhv", state, k[:, :, t])
        state = state + np.einsum("bhk,bhv->bhkv", k[:, :, t], beta[:, :, t, None] * missing)
        found[:, :, t] = np.einsum("bhkv,bhk->bhv", state, q[:, :, t])
    return found, state


def arrays(length: int, decay: float) -> list[mx.array]:
    shape = (2, 3, length, 8)
    q, k, v = mx.random.normal((3, *shape))
    k = k / mx.linalg.norm(k, axis=-1, keepdims=True)
    state = mx.random.normal((2, 3, 8, 8))
    fade, beta = -decay * mx.random.uniform(shape=shape), mx.random.uniform(shape=shape[:3])
    return [q, k, v, fade, beta, state]


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("decay", [0.0, 0.5, 300.0])
def test_chunks_give_what_the_definition_gives(length: int, decay: float) -> None:
    """Decays of any strength: what fades to nothing overflows nowhere."""
    given = arrays(length, decay)
    found, state = delta_rule(*given)
    expected, after = recurrence(*given)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(state, after, atol=2e-5)


def test_equal_keys_lose_no_digits() -> None:
    q, k, v, decay, beta, state = arrays(16, 0.0)
    k = mx.broadcast_to(k[:, :, :1], k.shape)
    beta = mx.full(beta.shape, 0.99)
    found, _ = delta_rule(q, k, v, decay, beta, state)
    expected, _ = recurrence(q, k, v, decay, beta, state)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_a_text_in_parts_ends_in_the_same_state() -> None:
    *given, _ = arrays(21, 0.5)
    whole, end = delta_rule(*given)
    state, parts = None, []
    for part in (slice(0, 5), slice(5, 6), slice(6, 21)):
        found, state = delta_rule(*(a[:, :, part] for a in given), state)
        parts.append(found)
    np.testing.assert_allclose(mx.concatenate(parts, axis=2), whole, atol=2e-5)
    np.testing.assert_allclose(state, end, atol=2e-5)
