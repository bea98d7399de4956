"""Causal self-attention with rotary positions and grouped key-value heads."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, KVCache, RotatingKVCache, scaled_dot_product_attention

from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.softcap import soft_capped_attention

Mask = mx.array | str | None


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """What one attention layer is.

    `scale` of the scores is head_dim ** -0.5 unless given. `rope` None means no positions
    (NoPE). `window` bounds how many tokens, its own included, a token sees. `soft_cap`
    bounds the scores. `qk_norm` normalises each head's queries and keys before rotation.
    `fused` stores the three projections as one, `qkv_proj`.
    """

    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    rope: RopeSpec | None
    scale: float | None = None
    window: int | None = None
    soft_cap: float | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: NormSpec | None = None
    fused: bool = False

    def build(self) -> "Attention":
        return FusedAttention(self) if self.fused else Attention(self)


class Attention(Module):
    """x (B, L, hidden) → (B, L, hidden), reading and extending `cache`."""

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        self._scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        self._rope = spec.rope.build() if spec.rope else None
        self._attend: Any = scaled_dot_product_attention
        if spec.soft_cap is not None:
            self._attend = partial(soft_capped_attention, cap=spec.soft_cap)
        self._add_projections(spec)
        self.o_proj = nn.Linear(spec.heads * spec.head_dim, spec.hidden_size, bias=spec.out_bias)
        self._normed = spec.qk_norm is not None
        if spec.qk_norm is not None:
            self.q_norm = spec.qk_norm.build(spec.head_dim)
            self.k_norm = spec.qk_norm.build(spec.head_dim)

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        queries, keys, values = self._project(x)
        if self._normed:
            queries, keys = self["q_norm"](queries), self["k_norm"](keys)
        queries = queries.transpose(0, 2, 1, 3)
        keys = keys.transpose(0, 2, 1, 3)
        values = values.transpose(0, 2, 1, 3)
        rope = self._rope
        if rope is not None:
            queries, keys = rope(queries, keys, cache)
        seen: Any = (keys, values) if cache is None else cache.update_and_fetch(keys, values)
        out = self._attend(queries, *seen, cache=cache, scale=self._scale, mask=mask)
        out = out.transpose(0, 2, 1, 3).reshape(*x.shape[:-1], -1)
        return self["o_proj"](out)  # type: ignore[no-any-return]

    def make_cache(self) -> Cache:
        """Return an empty cache that keeps what this layer can see."""
        window = self.spec.window
        return KVCache() if window is None else RotatingKVCache(max_size=window, keep=0)

    def _add_projections(self, spec: AttentionSpec) -> None:
        hidden, bias = spec.hidden_size, spec.qkv_bias
        self.q_proj = nn.Linear(hidden, spec.heads * spec.head_dim, bias=bias)
        self.k_proj = nn.Linear(hidden, spec.kv_heads * spec.head_dim, bias=bias)
        self.v_proj = nn.Linear(hidden, spec.kv_heads * spec.head_dim, bias=bias)

    def _project(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """Return queries, keys and values, each (B, L, its heads, head_dim)."""
        batch, length, _ = x.shape
        spec = self.spec
        return (
            self["q_proj"](x).reshape(batch, length, spec.heads, spec.head_dim),
            self["k_proj"](x).reshape(batch, length, spec.kv_heads, spec.head_dim),
            self["v_proj"](x).reshape(batch, length, spec.kv_heads, spec.head_dim),
        )


class FusedAttention(Attention):
    """One projection whose rows are the queries', then the keys', then the values'."""

    def _add_projections(self, spec: AttentionSpec) -> None:
        rows = (spec.heads + 2 * spec.kv_heads) * spec.head_dim
        self.qkv_proj = nn.Linear(spec.hidden_size, rows, bias=spec.qkv_bias)

    def _project(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        batch, length, _ = x.shape
        spec = self.spec
        heads = self["qkv_proj"](x).reshape(batch, length, -1, spec.head_dim)
        keys_end = spec.heads + spec.kv_heads
        return (
            heads[:, :, : spec.heads],
            heads[:, :, spec.heads : keys_end],
            heads[:, :, keys_end:],
        )
