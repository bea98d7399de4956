"""Attention in blocks, so that few scores exist at a time."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import mlx.core as mx

from mlxlm_cache.base import Packed
from mlxlm_cache.masks import Mask

Stored = TypeVar("Stored", mx.array, Packed)

# (queries, keys, values, mask, sinks) of a block to its output; the mask is None, "causal"
# or an array of four dimensions.
Attend = Callable[[mx.array, Stored, Stored, Mask, mx.array | None], mx.array]


def attend_in_blocks(
    attend: Attend[Stored],
    queries: mx.array,
    keys: Stored,
    values: Stored,
    mask: Mask,
    sinks: mx.array | None = None,
    *,
    max_scores: int,
    max_rows: int | None = None,
) -> mx.array:
    """Call `attend` for blocks of sequences, heads and queries; return it all as one array.

    A block has at most `max_scores` pairs of query and key, or one query, and at most
    `max_rows` queries of each head. Heads that share keys stay together. Under a causal
    mask a block gets no keys after its last query's, and the mask stays "causal". Blocks
    are computed one after the other, so that what they need is needed once.
    """
    batch, heads, length, _ = queries.shape
    kv_heads, size = _first(keys).shape[1:3]
    shared = heads // kv_heads
    if isinstance(mask, str) and mask == "causal" and length == 1:
        mask = None
    if isinstance(mask, mx.array):
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    elif mask is not None and mask != "causal":
        raise ValueError(f'mask must be an array, "causal" or None, not {mask!r}')

    rows = min(length, max_rows or length, max(1, max_scores // (shared * size)))
    groups = max(1, min(kv_heads, max_scores // (rows * shared * size)))
    sequences = max(1, min(batch, max_scores // (rows * heads * size)))

    previous: mx.array | None = None
    over_batch = []
    for b in _spans(batch, sequences):
        over_heads = []
        for h in _spans(kv_heads, groups):
            own = slice(h.start * shared, h.stop * shared)
            over_rows = []
            for r in _spans(length, rows):
                end = size - length + r.stop if isinstance(mask, str) else size
                block = queries[b, own, r]
                if previous is not None:
                    block = mx.depends([block], [previous])[0]
                previous = attend(
                    block,
                    _cut(keys, b, h, end),
                    _cut(values, b, h, end),
                    _cut_mask(mask, b, own, r),
                    None if sinks is None else sinks[own],
                )
                over_rows.append(previous)
            over_heads.append(_joined(over_rows, axis=2))
        over_batch.append(_joined(over_heads, axis=1))
    return _joined(over_batch, axis=0)


def _spans(total: int, step: int) -> Iterator[slice]:
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def _first(stored: mx.array | Packed) -> mx.array:
    return stored if isinstance(stored, mx.array) else stored[0]


def _cut(stored: Stored, batch: slice, heads: slice, end: int) -> Stored:
    if isinstance(stored, mx.array):
        return stored[batch, heads, :end]
    data, scales, biases = stored
    return data[batch, heads, :end], scales[batch, heads, :end], biases[batch, heads, :end]


def _cut_mask(mask: Mask, *parts: slice) -> Mask:
    if not isinstance(mask, mx.array):
        return mask
    whole = slice(None)
    return mask[tuple(p if n > 1 else whole for p, n in zip(parts, mask.shape, strict=False))]


def _joined(blocks: list[mx.array], axis: int) -> mx.array:
    return blocks[0] if len(blocks) == 1 else mx.concatenate(blocks, axis=axis)
