"""Attention to keys and values mixed with those of the tokens before (Baichuan M1)."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlxlm_cache import ArraysCache, Cache, CacheList, Mask

from mlxlm_models.layers.attention import AttentionSpec, FusedAttention
from mlxlm_models.layers.plan import Plan
from mlxlm_models.layers.short_conv import convolve


@dataclass(frozen=True, kw_only=True)
class ConvAttentionSpec(AttentionSpec):
    """`taps` weights per key-value head, of the token itself and those before it."""

    taps: int

    def plan(self) -> Plan:
        """Return nothing to divide: the weights of heads are no first axis."""
        return Plan()

    def build(self) -> "ConvAttention":
        return ConvAttention(self)


class ConvAttention(FusedAttention):
    """The cache is a list of two: the last raw keys and values, and the mixed ones."""

    def __init__(self, spec: ConvAttentionSpec) -> None:
        super().__init__(spec)
        shape = (1, 1, spec.kv_heads, 1, spec.taps)
        self.conv_k, self.conv_v = mx.zeros(shape), mx.zeros(shape)

    def look(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: Mask = None,
        cache: Cache | None = None,
    ) -> tuple[mx.array, Any]:
        state, own = (None, None) if cache is None else cache  # type: ignore[misc]
        keys, values = self._mixed(keys, values, state)
        return super().look(queries, keys, values, mask, own)

    def make_cache(self) -> Cache:
        return CacheList(ArraysCache(2), super().make_cache())

    def _mixed(self, keys: mx.array, values: mx.array, state: Any) -> tuple[mx.array, mx.array]:
        """Return keys and values (B, heads, L, head_dim) mixed along L, `state` moved on."""
        length = keys.shape[2]
        if state is not None and state.recording and length > 1:
            # The state after every token is one to go back to.
            parts = [
                self._mixed(keys[:, :, i : i + 1], values[:, :, i : i + 1], state)
                for i in range(length)
            ]
            both = [mx.concatenate(list(part), axis=2) for part in zip(*parts, strict=True)]
            return both[0], both[1]
        tokens = None if state is None else state.make_mask(length)
        mixed = []
        for slot, raw in enumerate((keys, values)):
            if tokens is not None:
                raw = mx.where(tokens[:, None, :, None], raw, 0)
            weight = self["conv_v" if slot else "conv_k"][0, 0]
            taps = [weight[..., i] for i in range(weight.shape[-1])]
            before = None if state is None or state[slot] is None else state[slot].swapaxes(1, 2)
            ends = None if state is None else state.lengths
            y, after = convolve(raw.swapaxes(1, 2), taps, before, ends)
            if state is not None:
                state[slot] = after.swapaxes(1, 2)
            mixed.append(y.swapaxes(1, 2))
        if state is not None:
            state.advance(length)
        return mixed[0], mixed[1]
