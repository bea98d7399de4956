"""Attention for the CPU backend.

MLX's own computes all scores at once, also those that a causal mask hides, with one slow
exp each, and reads shared keys once per query head. Here blocks of queries meet the keys
up to their last one, in blocks that stay in the processor's cache, with `fast_exp2`; that
takes a quarter of the time. Scores are laid out keys first: maximum and sum over keys
then are operations on whole rows, which MLX vectorizes.
"""

import math
from functools import partial

import mlx.core as mx

from mlxlm_cache.cpu_exp import LOG2_E, fast_exp2
from mlxlm_cache.masks import Mask
from mlxlm_cache.query_blocks import attend_in_blocks
from mlxlm_cache.unfused_attention import Score

MAX_SCORES = 1 << 19  # 2 MB
MAX_ROWS = 64


def vectorized_attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None = None,
    *,
    scale: float,
    score: Score | None = None,
) -> mx.array:
    """Do what `scaled_dot_product_attention` does over float keys and values, in float32."""
    out = attend_in_blocks(
        partial(_attend, scale=scale, score=score),
        queries.astype(mx.float32),
        keys.astype(mx.float32),
        values.astype(mx.float32),
        mask,
        None if sinks is None else sinks.astype(mx.float32),
        max_scores=MAX_SCORES,
        max_rows=MAX_ROWS,
    )
    return out.astype(queries.dtype)


def _attend(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: Mask,
    sinks: mx.array | None,
    *,
    scale: float,
    score: Score | None,
) -> mx.array:
    """Attend to all keys of a block. Scores are logarithms to base 2."""
    batch, heads, length, _ = queries.shape
    kv_heads, size = keys.shape[1:3]
    shared = heads // kv_heads
    rows = (queries * (scale if score else scale * LOG2_E)).reshape(
        batch, kv_heads, shared * length, -1
    )
    scores = keys @ rows.swapaxes(-1, -2)
    if score:
        scores = score(scores) * LOG2_E
    scores = scores.reshape(batch, kv_heads, size, shared, length)
    if mask is not None:
        scores = scores + _additive(mask, length, size, shared)
    highest = scores.max(axis=2, keepdims=True)
    if sinks is not None:
        sink = (sinks * LOG2_E).reshape(1, kv_heads, 1, shared, 1)
        highest = mx.maximum(highest, sink)
    highest = mx.stop_gradient(highest)
    weights = fast_exp2(scores - highest)
    total = weights.sum(axis=2)
    if sinks is not None:
        total = total + fast_exp2(sink - highest)[:, :, 0]
    out = weights.reshape(batch, kv_heads, size, -1).swapaxes(-1, -2) @ values
    out = out.reshape(batch, kv_heads, shared, length, -1) / total[..., None]
    return out.reshape(batch, heads, length, -1)


def _additive(mask: mx.array | str, length: int, size: int, shared: int) -> mx.array:
    """Return what to add to scores, that broadcasts to (B, n_kv, S, shared, L)."""
    if isinstance(mask, str):
        hidden = mx.tril(mx.full((length, length), -math.inf), -1)
        seen = mx.zeros((size - length, length))
        return mx.concatenate([seen, hidden])[:, None]
    lowest = mx.finfo(mx.float32).min
    if mask.dtype == mx.bool_:
        mask = (1 - mask.astype(mx.float32)) * lowest
    else:  # a row with no finite score means nothing; one of the lowest is an average
        mask = mx.maximum(mask.astype(mx.float32) * LOG2_E, lowest)
    batch, heads, *rest = mask.shape
    grouped = (heads // shared, shared) if heads > 1 else (1, 1)
    return mx.contiguous(mask.reshape(batch, *grouped, *rest).transpose(0, 1, 4, 2, 3))
