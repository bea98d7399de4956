"""Attention to the blocks of keys that an indexer chooses (MiniMax-M3, 2026)."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, CacheList, KVCache, Mask, scaled_dot_product_attention

from mlxlm_models.layers.attention import Attention, AttentionSpec
from mlxlm_models.layers.indexer import MAX_SCORES
from mlxlm_models.layers.mla import unpacked
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, Shard

_Q, _K, _Q_NORM, _K_NORM = "index_q_proj", "index_k_proj", "index_q_norm", "index_k_norm"


@dataclass(frozen=True, kw_only=True)
class BlockSparseAttentionSpec(AttentionSpec):
    """Per key-value head, a query attends to `top_blocks` blocks of `block_size` keys.

    A block is as good as its best key, by the product of an index query per key-value head
    and one index key, both of `index_dim` features, normalised and rotated as attention's
    are. The `local_blocks` that end with the query's own are always among them. Blocks are
    counted from a sequence's first token, whatever the padding before it.
    """

    index_dim: int
    index_norm: NormSpec
    block_size: int
    top_blocks: int
    local_blocks: int

    @property
    def mask_array(self) -> bool:
        return True

    def plan(self) -> Plan:
        return super().plan() + Plan({_Q: Shard("outputs")})

    def readers(self) -> tuple[str, ...]:
        return (*super().readers(), _Q, _K)

    def build(self) -> "BlockSparseAttention":
        return BlockSparseAttention(self)


@dataclass(frozen=True)
class _Chosen:
    """`blocks` (B, kv_heads, L, k) of each query; `first`, the place of each row's first token."""

    blocks: mx.array
    block_size: int
    first: mx.array | None
    mask: mx.array | None

    def places(self) -> mx.array:
        """Return where the chosen keys are (B, kv_heads, L, k * block_size)."""
        inside = mx.arange(self.block_size)
        places = (self.blocks[..., None] * self.block_size + inside).flatten(-2)
        return places if self.first is None else places + self.first

    def among(self, keys: int) -> mx.array:
        """Return the mask (B, kv_heads, L, keys) of what is chosen and may be seen."""
        counts = (*self.blocks.shape[:-1], -(-keys // self.block_size))
        kept = mx.put_along_axis(mx.zeros(counts, mx.bool_), self.blocks, mx.array(True), axis=-1)
        places = mx.arange(keys)
        if self.first is not None:
            places = mx.maximum(places - self.first, 0)
        block = mx.broadcast_to(places // self.block_size, (*counts[:-1], keys))
        kept = mx.take_along_axis(kept, block, axis=-1)
        if self.mask is None:
            return kept
        if self.mask.dtype == mx.bool_:
            return kept & self.mask
        return mx.where(kept, self.mask, -mx.inf)


class BlockSparseAttention(Attention):
    """The cache is a list: of keys and values, and of the index keys."""

    def __init__(self, spec: BlockSparseAttentionSpec) -> None:
        super().__init__(spec)
        self._blocks = spec
        hidden, dim = spec.hidden_size, spec.index_dim
        self[_Q] = nn.Linear(hidden, spec.kv_heads * dim, bias=False)
        self[_K] = nn.Linear(hidden, dim, bias=False)
        self[_Q_NORM], self[_K_NORM] = spec.index_norm.build(dim), spec.index_norm.build(dim)
        self._attend = _attend

    def __call__(self, x: mx.array, mask: Mask = None, cache: Any = None) -> mx.array:
        own, index = (None, None) if cache is None else cache
        chosen: Any = self.choose(x, mask, index)
        return self.attend(x, mask if chosen is None else chosen, own)[0]

    def choose(self, x: mx.array, mask: Any, cache: Cache | None) -> _Chosen | None:
        """Return the blocks that each query attends to; None for all. A `mask` is an array."""
        spec = self._blocks
        batch, length, _ = x.shape
        offset: Any = 0 if cache is None else cache.offset
        queries = self[_Q](x).reshape(batch, length, spec.kv_heads, spec.index_dim)
        queries = self[_Q_NORM](queries).transpose(0, 2, 1, 3)
        keys = self[_K_NORM](self[_K](x))[:, None]
        if self._rope is not None:
            queries, keys = self._rope(queries, keys, cache)
        if cache is not None:
            keys = unpacked(cache.update_and_fetch(keys, keys)[0], cache)
        total = keys.shape[-2]
        if -(-total // spec.block_size) <= spec.top_blocks:
            return None
        first = None
        if not isinstance(offset, int):
            first = (total - length - offset)[:, None, None, None]
        if mask is not None and mask.ndim == 2:
            mask = mask[None, None]
        step = max(1, MAX_SCORES // (batch * spec.kv_heads * total))
        blocks = []
        for start in range(0, length, step):
            some = slice(start, min(start + step, length))
            seen = None if mask is None else mask[..., some, :]
            scores = self._scores(queries[..., some, :], keys, seen, first)
            positions = offset + some.start if first is None else (offset + some.start)[:, None]
            positions = positions + mx.arange(some.stop - some.start)
            blocks.append(self._best(scores, positions))
        chosen = blocks[0] if len(blocks) == 1 else mx.concatenate(blocks, axis=-2)
        return _Chosen(chosen, spec.block_size, first, mask)

    def _scores(
        self, queries: mx.array, keys: mx.array, mask: mx.array | None, first: mx.array | None
    ) -> mx.array:
        """Return each block's worth (B, kv_heads, L, blocks), -inf where nothing is seen."""
        size = self._blocks.block_size
        scores = queries.astype(mx.float32) @ keys.astype(mx.float32).swapaxes(-1, -2)
        if mask is not None:
            boolean = mask.dtype == mx.bool_
            scores = mx.where(mask, scores, -mx.inf) if boolean else scores + mask
        total = scores.shape[-1]
        missing = -total % size
        if first is not None:  # bring each row's first token to the front
            places = mx.arange(total + missing) + first
            places = mx.broadcast_to(places, (*scores.shape[:-1], total + missing))
            inside = mx.take_along_axis(scores, mx.minimum(places, total - 1), axis=-1)
            scores = mx.where(places < total, inside, -mx.inf)
        elif missing:
            scores = mx.pad(scores, [(0, 0)] * 3 + [(0, missing)], constant_values=-mx.inf)
        return mx.unflatten(scores, -1, (-1, size)).max(axis=-1)

    def _best(self, scores: mx.array, positions: mx.array) -> mx.array:
        """Return the best blocks, the local ones first, for queries at `positions` (…, L)."""
        spec = self._blocks
        if spec.local_blocks:
            own = positions.reshape(-1, 1, positions.shape[-1], 1) // spec.block_size
            local = mx.maximum(own - mx.arange(spec.local_blocks), 0)
            local = mx.broadcast_to(local, (*scores.shape[:-1], spec.local_blocks))
            scores = mx.put_along_axis(scores, local, mx.array(mx.inf), axis=-1)
        return mx.argpartition(-scores, spec.top_blocks - 1, axis=-1)[..., : spec.top_blocks]

    def make_cache(self) -> Cache:
        return CacheList(KVCache(), KVCache())


def _attend(
    queries: mx.array, keys: Any, values: Any, *, cache: Any, scale: float, mask: Any
) -> mx.array:
    if not isinstance(mask, _Chosen):
        return scaled_dot_product_attention(
            queries, keys, values, cache=cache, scale=scale, mask=mask
        )
    first = keys[0] if isinstance(keys, tuple) else keys
    heads, total = first.shape[1], first.shape[-2]
    if queries.shape[-2] == 1:
        places = mask.places()
        inside = places < total
        places = mx.minimum(places, total - 1)
        if mask.mask is not None:
            seen = mx.broadcast_to(mask.mask, (*places.shape[:-1], total))
            seen = mx.take_along_axis(seen, places, axis=-1)
            boolean = seen.dtype == mx.bool_
            inside = inside & seen if boolean else mx.where(inside, seen, -mx.inf)
        places = places.swapaxes(-1, -2)  # (B, kv_heads, k * block_size, 1)
        keys, values, among = _taken(keys, places), _taken(values, places), inside
    else:
        among = mask.among(total)
    # A mask per key-value head: with one for each query head, it would be the largest array.
    parts = [
        scaled_dot_product_attention(
            part,
            _head(keys, i),
            _head(values, i),
            cache=cache,
            scale=scale,
            mask=among[:, i : i + 1],
        )
        for i, part in enumerate(mx.split(queries, heads, axis=1))
    ]
    return mx.concatenate(parts, axis=1)


def _head(part: Any, index: int) -> Any:
    if isinstance(part, tuple):
        return tuple(_head(array, index) for array in part)
    return part[:, index : index + 1]


def _taken(part: Any, places: mx.array) -> Any:
    if isinstance(part, tuple):
        return tuple(_taken(array, places) for array in part)
    return mx.take_along_axis(part, places, axis=2)
