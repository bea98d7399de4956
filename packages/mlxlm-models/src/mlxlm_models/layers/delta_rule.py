"""The delta rule with a decay per feature (Kimi Linear, 2025), in chunks and step by step.

Each head has a state S (keys, values). A token first lets it fade, S ← diag(exp g) S, then
writes what its key doesn't find yet: S ← S + β k (v - Sᵀ k)ᵀ; it reads Sᵀ q.
"""

import mlx.core as mx

CHUNK = 16
"""Tokens computed at once: pairs of them have a decay per feature each, in memory."""


def delta_rule(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Return what the tokens read (B, H, L, V), and the state (B, H, K, V) after them.

    All float32: queries and keys (B, H, L, K), values (B, H, L, V), the logarithm of the
    decay (B, H, L, K), none above 0, and beta (B, H, L).
    """
    batch, heads, length, size = keys.shape
    if state is None:
        state = mx.zeros((batch, heads, size, values.shape[-1]))
    found = []
    for start in range(0, length, CHUNK):
        part = slice(start, start + CHUNK)
        q, k, v, g, b = (a[:, :, part] for a in (queries, keys, values, decay, beta))
        out, state = _chunk(q, k, v, g, b, state)
        found.append(out)
    return mx.concatenate(found, axis=2) if len(found) > 1 else found[0], state


def _chunk(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[mx.array, mx.array]:
    length = keys.shape[2]
    beta = beta[..., None]
    fade = mx.exp(mx.cumsum(decay, axis=2))
    # How much of what token j wrote is left when i reads, each sum by itself: differences of
    # long sums would lose digits.
    earlier = mx.tril(mx.ones((length, length)), -1)
    between = mx.exp(mx.cumsum(decay[:, :, :, None] * earlier[..., None], axis=2))
    kept = between * keys[:, :, None]
    # What is written solves (I + β A) w = β (v - Sᵀ k), A being how far a key finds an
    # earlier one, which has faded since.
    written = beta * (values - (fade * keys) @ state)
    if length > 1:
        overlap = (kept @ keys[..., None]).squeeze(-1) * earlier
        written = _inverse(beta * overlap) @ written
    reads = (kept @ queries[..., None]).squeeze(-1) * (earlier + mx.eye(length))
    found = (fade * queries) @ state + reads @ written
    state = fade[:, :, -1, :, None] * state + kept[:, :, -1].swapaxes(-1, -2) @ written
    return found, state


def _inverse(lower: mx.array) -> mx.array:
    """Return the inverse of I + `lower`, which is strictly lower triangular (…, n, n).

    By blocks: the diagonal ones of size s are inverted, and with what is between two of
    them give those of size 2 s. A power series would lose digits where keys are alike.
    """
    n = lower.shape[-1]
    places = mx.arange(n)
    inverse = mx.eye(n)
    size = 1
    while size < n:
        pair, half = places // (2 * size), places // size % 2
        between = (pair[:, None] == pair) & (half[:, None] == 1) & (half == 0)
        inverse = inverse - inverse @ (lower * between) @ inverse
        size *= 2
    return inverse
