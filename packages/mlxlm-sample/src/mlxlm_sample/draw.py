"""Random draws: from MLX's global state, from one key, or from one key per row."""

import mlx.core as mx

from mlxlm_sample.checks import check_positive_temp

# Beyond this the scaled log-probs would overflow float32; the draw is greedy long before.
MAX_INVERSE_TEMP = 1e30
# The least float32 above 0: keeps the Gumbel noise finite, so that -inf always loses.
TINY = 1.1754943508222875e-38


def categorical_sampling(logits: mx.array, temp: float, *, key: mx.array | None = None) -> mx.array:
    """Draw token ids (…,) from softmax(logits / temp), logits (…, V); `temp` above 0.

    `key`: None draws from `mx.random.state`; (2,) draws the whole batch from one key;
    (B, 2) draws row b from key b alone, so that its token is the same in any batch.
    A row that is -inf throughout has no right answer; some id below V comes back.
    """
    check_positive_temp(temp)
    return draw(scale(logits, temp), key)


def scale(logits: mx.array, temp: float) -> mx.array:
    return logits.astype(mx.float32) * min(1 / temp, MAX_INVERSE_TEMP)


def draw(logits: mx.array, key: mx.array | None) -> mx.array:
    """Draw from unnormalized float32 log-probs; keys as in `categorical_sampling`."""
    if key is None or key.ndim == 1:
        return mx.random.categorical(logits, key=key)
    check_keys(key, logits)
    # Not mx.random.categorical: its method, and so its draw, depends on the batch size.
    size = logits.shape[-1]
    uniform = mx.vmap(lambda k: mx.random.uniform(shape=(size,), key=k))(key)
    gumbel = -mx.log(-mx.log(mx.maximum(uniform, TINY)))
    return mx.argmax(logits + gumbel, axis=-1)


def coin(logits: mx.array, key: mx.array | None) -> mx.array:
    """Draw one uniform number in [0, 1) per row of logits (…, V): (…, 1)."""
    if key is None or key.ndim == 1:
        return mx.random.uniform(shape=(*logits.shape[:-1], 1), key=key)
    check_keys(key, logits)
    return mx.vmap(lambda k: mx.random.uniform(shape=(1,), key=k))(key)


def check_keys(key: mx.array, logits: mx.array) -> None:
    if logits.ndim != 2 or key.shape != (logits.shape[0], 2):
        raise ValueError(
            f"`key` of shape {key.shape} has to hold one key per row of the logits "
            f"{logits.shape}: shape (B, 2) for (B, V)."
        )
