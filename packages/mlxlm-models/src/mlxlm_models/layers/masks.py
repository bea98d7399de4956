"""Which mask each layer of a decoder needs, made once per kind and forward pass."""

from collections.abc import Sequence

import mlx.core as mx
from mlxlm_cache import Cache, create_attention_mask

from mlxlm_models.layers.attention import AttentionSpec, Mask


class MaskPlan:
    """Groups layers that share a mask: those of equal window and kind of attention."""

    def __init__(self, layers: Sequence[AttentionSpec]) -> None:
        kinds: dict[tuple[int | None, bool], int] = {}
        # Per kind: the first layer of it, its window, and whether it needs an array.
        self._kinds: list[tuple[int, int | None, bool]] = []
        self._kind_of: list[int] = []
        for index, spec in enumerate(layers):
            kind = (spec.window, spec.soft_cap is not None)
            if kind not in kinds:
                kinds[kind] = len(kinds)
                self._kinds.append((index, *kind))
            self._kind_of.append(kinds[kind])

    def masks(self, h: mx.array, cache: Sequence[Cache | None]) -> list[Mask]:
        """Return one mask per layer for the hidden states h (B, L, hidden)."""
        made = [
            create_attention_mask(h, cache[first], window_size=window, return_array=as_array)
            for first, window, as_array in self._kinds
        ]
        return [made[kind] for kind in self._kind_of]
