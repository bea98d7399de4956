"""Which mask each layer of a decoder needs, made once per kind and forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
from mlxlm_cache import Cache, Mask, create_attention_mask


class Mixer(Protocol):
    """What the mask of a layer depends on; see `AttentionSpec`, and `DeltaAttentionSpec` for
    one that is `recurrent`: such a layer keeps a state, and its mask is of padding alone.
    """

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
    recurrent: bool


def _kind(spec: Mixer) -> _Kind:
    recurrent = getattr(spec, "recurrent", False)
    return _Kind(spec.window, spec.chunk, spec.mask_array, recurrent)


class MaskPlan:
    """Groups layers that share a mask: those of equal window, chunk and kind of attention.

    A layer that is None gets no mask: nothing in it looks at other tokens.
    """

    def __init__(self, layers: Sequence[Mixer | None]) -> None:
        # Per kind: the first layer of it.
        self._first: dict[_Kind, int] = {}
        self._kind_of: list[_Kind | None] = []
        for index, spec in enumerate(layers):
            kind = None if spec is None else _kind(spec)
            if kind is not None:
                self._first.setdefault(kind, index)
            self._kind_of.append(kind)

    def masks(self, h: mx.array, cache: Sequence[Cache | None]) -> list[Mask]:
        """Return one mask per layer for the hidden states h (B, L, hidden)."""
        made = {kind: self._mask(kind, h, cache[first]) for kind, first in self._first.items()}
        return [None if kind is None else made[kind] for kind in self._kind_of]

    def _mask(self, kind: _Kind, h: mx.array, cache: Cache | None) -> Mask:
        length = h.shape[1]
        if kind.recurrent:
            # Which tokens are none of the padding, as the cache knows.
            return None if cache is None else cache.make_mask(length)
        offset: Any = 0 if cache is None else cache.offset
        mask = create_attention_mask(h, cache, window_size=kind.window, return_array=kind.as_array)
        if kind.chunk is None or hasattr(cache, "chunk_size"):  # the cache's mask is of chunks
            return mask
        if not isinstance(offset, int):
            raise TypeError(
                f"{type(cache).__name__} cannot serve chunked attention: "
                f"make the cache with make_prompt_cache(model)"
            )
        if offset + length <= kind.chunk:
            return mask
        queries, keys = mx.arange(offset, offset + length)[:, None], mx.arange(offset + length)
        return (keys <= queries) & (keys // kind.chunk == queries // kind.chunk)
