"""Embeddings: the last hidden states of a text, pooled."""

from collections.abc import Generator, Sequence
from typing import Any, Literal, cast

import mlx.core as mx
from mlxlm_cache import make_prompt_cache

from mlxlm_server.engine.ticket import Work

Pooling = Literal["last", "mean"]


def embeddings(prompts: Sequence[Sequence[int]], pooling: Pooling, dimensions: int | None) -> Work:
    """Return the work that makes a vector of length 1, float32, for each of the prompts.

    `dimensions` keeps the first ones. The work raises ValueError where the model shows no
    hidden states, or has fewer dimensions. Prompts of similar lengths are computed together,
    those too long for one piece in several, over a cache.
    """

    def work(model: Any) -> Generator[None, int, list[list[float]]]:
        hidden = _hidden(model)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        made: dict[int, list[float]] = {}
        limit = yield
        while order:
            rows = [order.pop(0)]
            while order and (len(rows) + 1) * len(prompts[order[0]]) <= limit:
                rows.append(order.pop(0))
            batch = [prompts[row] for row in rows]
            if len(batch[-1]) <= limit:
                pooled = _together(hidden, batch, pooling)
            else:
                pooled = yield from _long(model, hidden, batch[0], pooling, limit)
            made |= zip(rows, _cut(pooled, dimensions), strict=True)
            if order:
                limit = yield
        return [made[row] for row in range(len(prompts))]

    return work


def _hidden(model: Any) -> Any:
    """Return what gives a model's last hidden states, normalised as before its head."""
    if not callable(getattr(model, "logits", None)) or not callable(getattr(model, "model", None)):
        raise ValueError("This model shows no hidden states: it can't make embeddings.")
    return model.model


def _together(hidden: Any, batch: Sequence[Sequence[int]], pooling: Pooling) -> mx.array:
    """Return (B, D). What pads a row comes after it, where no token of the row looks."""
    lengths = mx.array([len(row) for row in batch])
    longest = max(map(len, batch))
    tokens = mx.array([[*row, *[0] * (longest - len(row))] for row in batch], mx.uint32)
    states = hidden(tokens, cache=None).astype(mx.float32)
    if pooling == "last":
        return mx.take_along_axis(states, (lengths - 1)[:, None, None], axis=1)[:, 0]
    inside = mx.arange(longest)[None] < lengths[:, None]
    total = mx.where(inside[..., None], states, 0).sum(axis=1)
    return total / lengths[:, None]


def _long(
    model: Any, hidden: Any, row: Sequence[int], pooling: Pooling, limit: int
) -> Generator[None, int, mx.array]:
    """Return (1, D), computed in pieces."""
    cache = make_prompt_cache(model)
    total, last, done = mx.array(0.0), mx.array(0.0), 0
    while True:
        piece = mx.array([row[done : done + limit]], mx.uint32)
        states = hidden(piece, cache=cache).astype(mx.float32)
        total, last = total + states.sum(axis=1), states[:, -1]
        mx.eval(total, last)
        done += piece.size
        if done >= len(row):
            mean: mx.array = total / len(row)
            return last if pooling == "last" else mean
        limit = yield


def _cut(pooled: mx.array, dimensions: int | None) -> list[list[float]]:
    size = pooled.shape[-1]
    if dimensions is not None:
        if dimensions > size:
            raise ValueError(f"dimensions={dimensions}: this model's embeddings have {size}.")
        pooled = pooled[:, :dimensions]
    norm = mx.linalg.norm(pooled, axis=-1, keepdims=True)
    return cast(list[list[float]], (pooled / mx.maximum(norm, 1e-12)).tolist())
