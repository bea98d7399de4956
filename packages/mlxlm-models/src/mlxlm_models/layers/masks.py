"""Which mask each layer of a decoder needs, made once per kind and forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
from mlxlm_cache import Cache, Mask, create_attention_mask


class Mixer(Protocol):
    """What the mask of a layer depends on; see `AttentionSpec`."""

    @property
    def window(self) -> int | None: ...
    @property
    def chunk(self) -> int | None: ...
    @property
    def mask_array(self) -> bool: ...


@dataclass(frozen=True)
class _Kind:
    window: int | None
    chunk: int | None
    as_array: bool


class MaskPlan:
    """Groups layers that share a mask: those of equal window, chunk and kind of attention.

    A layer that is None gets no mask: nothing in it looks at other tokens.
    """

    def __init__(self, layers: Sequence[Mixer | None]) -> None:
        # Per kind: the first layer of it.
        self._first: dict[_Kind, int] = {}
        self._kind_of: list[_Kind | None] = []
        for index, spec in enumerate(layers):
            kind = None if spec is None else _Kind(spec.window, spec.chunk, spec.mask_array)
            if kind is not None:
                self._first.setdefault(kind, index)
            self._kind_of.append(kind)

    def masks(self, h: mx.array, cache: Sequence[Cache | None]) -> list[Mask]:
        """Return one mask per layer for the hidden states h (B, L, hidden)."""
        made = {kind: self._mask(kind, h, cache[first]) for kind, first in self._first.items()}
        return [None if kind is None else made[kind] for kind in self._kind_of]

    def _mask(self, kind: _Kind, h: mx.array, cache: Cache | None) -> Mask:
        length = h.shape[1]
        offset: Any = 0 if cache is None else cache.offset
        if kind.chunk is None or (isinstance(offset, int) and offset + length <= kind.chunk):
            return create_attention_mask(
                h, cache, window_size=kind.window, return_array=kind.as_array
            )
        return _chunked(create_attention_mask(h, cache, return_array=True), length, offset, kind)


def _chunked(mask: Any, length: int, offset: Any, kind: _Kind) -> mx.array:
    """Keep of a causal mask (…, L, S) what is in the chunk of each query.

    The keys end with the last query; what comes before the first token is padding.
    """
    assert kind.chunk is not None
    if isinstance(offset, int):
        keys = offset + length if mask is None else mask.shape[-1]
        ends: Any = offset + length
    else:
        ends = (offset + length)[:, None, None, None]
        if mask is None:
            raise ValueError("a batch's cache has to give its mask as an array")
        keys = mask.shape[-1]
    queries = mx.arange(-length, 0)[:, None] + ends
    positions = mx.arange(-keys, 0) + ends
    same: mx.array = queries // kind.chunk == positions // kind.chunk
    return same if mask is None else mask & same
