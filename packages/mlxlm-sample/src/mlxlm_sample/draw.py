"""Random draws: from MLX's global state, from one key, or from one key per row."""

import mlx.core as mx

from mlxlm_sample.checks import check_positive_temp

# Beyond this the scaled log-probs would overflow float32; the draw is greedy long before.
MAX_INVERSE_TEMP = 1e30
# The least float32 above 0: keeps the Gumbel noise finite, so that -inf always loses.
TINY = 1.1754943508222875e-38


def categorical_sampling(logits: mx.array, temp: float, *, key: mx.array | None = None) -> mx.array:
    """Draw token ids (…,) from softmax(logits / temp), logits (…, V); `temp` above 0.

    `key` None draws from `mx.random.state`. With a key, logits are (B, V): (B, 2) draws
    row b from key b alone, the same token in any batch; (2,) is the key of a single row,
    and is split over more. A row that is -inf throughout gives some id below V.
    """
    check_positive_temp(temp)
    return draw(scale(logits, temp), key)


def scale(logits: mx.array, temp: float) -> mx.array:
    return logits.astype(mx.float32) * min(1 / temp, MAX_INVERSE_TEMP)


def draw(logits: mx.array, key: mx.array | None) -> mx.array:
    """Draw from unnormalized float32 log-probs; keys as in `categorical_sampling`."""
    if key is None:
        return mx.random.categorical(logits)
    # mx.random.categorical changes its method, and so its draw, with the batch size.
    gumbel = -mx.log(-mx.log(mx.maximum(_uniform(logits, key, logits.shape[-1]), TINY)))
    return mx.argmax(logits + gumbel, axis=-1)


def coin(logits: mx.array, key: mx.array | None) -> mx.array:
    """Draw one uniform number in [0, 1) per row of logits (…, V): (…, 1)."""
    if key is None:
        return mx.random.uniform(shape=(*logits.shape[:-1], 1))
    return _uniform(logits, key, 1)


def _uniform(logits: mx.array, key: mx.array, size: int) -> mx.array:
    """Return (B, size) numbers in [0, 1), each row from a key of its own."""
    batch = logits.shape[0]
    if key.shape == (2,):
        key = key[None] if batch == 1 else mx.random.split(key, batch)
    if logits.ndim != 2 or key.shape != (batch, 2):
        raise ValueError(
            f"`key` of shape {key.shape} does not fit logits {logits.shape}: pass (2,), or "
            "(B, 2) for logits (B, V)."
        )
    return mx.vmap(lambda one: mx.random.uniform(shape=(size,), key=one))(key)
