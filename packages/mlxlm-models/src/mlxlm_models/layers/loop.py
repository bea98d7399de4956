"""Layers gone through several times; later loops also see what the first saw (LoopCoder)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, Mask, RotatingKVCache, scaled_dot_product_attention

from mlxlm_models.layers.attention import Attention, AttentionSpec
from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.masks import MaskPlan
from mlxlm_models.layers.module import Module


@dataclass(frozen=True, kw_only=True)
class LoopedAttentionSpec(AttentionSpec):
    def build(self) -> "LoopedAttention":
        return LoopedAttention(self)


class LoopedAttention(Attention):
    def __init__(self, spec: LoopedAttentionSpec) -> None:
        super().__init__(spec)
        # Rotated queries are looked with twice: rotation comes before `look`.
        self._turn, self._rope = self._rope, None

    def first(self, x: mx.array, mask: Mask, cache: Cache | None) -> tuple[mx.array, Any]:
        """Return the output for x (B, L, hidden), and the keys and values looked at."""
        found, seen = self.look(*self._turned(x, cache), mask, cache)
        return self.write(x, found), seen

    def again(
        self,
        x: mx.array,
        gate: "HeadGate",
        before: tuple[Any, Mask, Cache | None],
        window: Mask,
        cache: Cache | None,
    ) -> mx.array:
        """Return the output of a later loop.

        `before` are the keys and values that the first loop looked at, by which mask and from
        which cache; `cache` holds this loop's own, seen through a `window`.
        """
        queries, keys, values = self._turned(x, cache)
        near, _ = self.look(queries, keys, values, window, cache)
        (seen_keys, seen_values), mask, first = before
        whole = scaled_dot_product_attention(
            queries, seen_keys, seen_values, cache=first, scale=self._scale, mask=mask
        )
        return self.write(x, near + (whole - near) * gate(queries))

    def _turned(self, x: mx.array, cache: Cache | None) -> tuple[mx.array, mx.array, mx.array]:
        queries, keys, values = self.read(x)
        if self._turn is not None:
            queries, keys = self._turn(queries, keys, cache)
        return queries, keys, values


class HeadGate(Module):
    """Queries (B, heads, L, head_dim) → how much of the whole each takes, (B, heads, L, 1)."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = mx.zeros((heads, head_dim))
        self.bias = mx.zeros((heads,))

    def __call__(self, queries: mx.array) -> mx.array:
        logits = queries @ self["weight"][:, :, None] + self["bias"][:, None, None]
        return mx.sigmoid(logits)


@dataclass(frozen=True, kw_only=True)
class LoopDecoderSpec(DecoderSpec):
    """`loops` times through the layers; from the second on, keys of their own have a `window`."""

    loops: int
    loop_window: int

    def build(self) -> "LoopDecoder":
        return LoopDecoder(self)


class LoopDecoder(Decoder):
    """Has a cache of each layer for each loop: those of the first loop come first."""

    def __init__(self, spec: LoopDecoderSpec) -> None:
        super().__init__(spec)
        mixers: list[Any] = [layer.attention for layer in spec.layers]
        self.gate_projections = [HeadGate(mixer.heads, mixer.head_dim) for mixer in mixers]
        self._loops, self._window = spec.loops, spec.loop_window
        self._windows = MaskPlan([replace(mixer, window=spec.loop_window) for mixer in mixers])

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        """See `Decoder`."""
        layers, gates = self[self._names.layers], self["gate_projections"]
        count = len(layers)
        if cache is None:
            cache = [None] * (count * self._loops)
        elif len(cache) != count * self._loops:
            raise ValueError(
                f"a cache of {len(cache)} layers for {self._loops} loops through {count}: "
                f"make it with make_prompt_cache(model)"
            )
        h = self.embed(tokens, cache[0], input_embeddings)
        masks = self._mask_plan.masks(h, cache[:count])
        before: list[tuple[Any, Mask, Cache | None]] = []
        for layer, mask, own in zip(layers, masks, cache[:count], strict=True):
            read = layer.opened(h)
            attended, seen = layer.mixer.first(read, mask, own)
            before.append((seen, mask, own))
            h = layer.closed(h, read, attended)
        for start in range(count, count * self._loops, count):
            caches = cache[start : start + count]
            windows = self._windows.masks(h, caches)
            for layer, gate, first, window, own in zip(
                layers, gates, before, windows, caches, strict=True
            ):
                read = layer.opened(h)
                attended = layer.mixer.again(read, gate, first, window, own)
                h = layer.closed(h, read, attended)
        return h if self._norm is None else self[self._norm](h)

    def make_cache(self) -> list[Cache]:
        """Return one empty cache per layer and loop: rotating ones after the first loop."""
        whole = super().make_cache()
        later = len(whole) * (self._loops - 1)
        return [*whole, *(RotatingKVCache(max_size=self._window, keep=0) for _ in range(later))]
