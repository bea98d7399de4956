"""Attention to near blocks of tokens, and to every n-th block further back (Phi 3 small)."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.attention import AttentionSpec, FusedAttention


@dataclass(frozen=True, kw_only=True)
class StridedAttentionSpec(AttentionSpec):
    """A query sees the latest `near` blocks of `block` tokens, its own among them.

    Of those before, it sees block b where (b + head's number + 1) is a multiple of `stride`, or
    where b + 1 is, with `same` for all heads. With fewer heads than `stride`, the numbers of
    the heads are spread out over it.
    """

    block: int
    near: int
    stride: int
    same: bool = False

    @property
    def mask_array(self) -> bool:
        return True

    def build(self) -> "StridedAttention":
        return StridedAttention(self)


class StridedAttention(FusedAttention):
    """Needs keys in the order of their positions, as alibi does."""

    def __init__(self, spec: StridedAttentionSpec) -> None:
        super().__init__(spec)
        self._block, self._near, self._stride = spec.block, spec.near, spec.stride
        step = 0 if spec.same else max(1, spec.stride // spec.heads)
        self._shifts = mx.arange(spec.heads)[:, None, None] * step + 1

    def _mask(self, mask: Mask, keys: Any, queries: mx.array, cache: Cache | None) -> Mask:
        length = queries.shape[2]
        total = (keys[0] if isinstance(keys, tuple) else keys).shape[2]
        if total <= self._near * self._block:
            return mask
        # Positions count from each sequence's first token: what comes before it is padding.
        first: Any = total if cache is None else cache.offset
        if not isinstance(first, int):
            first = first[:, None, None, None]
        columns = (mx.arange(total) + (first - total)) // self._block
        rows = (mx.arange(total - length, total)[:, None] + (first - total)) // self._block
        seen: mx.array = (rows - columns < self._near) | (
            (columns + self._shifts) % self._stride == 0
        )
        return seen if not isinstance(mask, mx.array) else mask & seen
