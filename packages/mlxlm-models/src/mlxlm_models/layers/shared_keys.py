"""Attention to the keys and values of an earlier layer (Gemma 3n and 4)."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, Mask, scaled_dot_product_attention

from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.plan import Plan, Shard


@dataclass(frozen=True)
class Seen:
    """What a layer attended to: keys and values, its cache, and the first query's position."""

    keys_values: Any
    cache: Cache | None
    offset: Any


@dataclass(frozen=True, kw_only=True)
class SharedAttentionSpec(AttentionSpec):
    """Attention with no keys and values of its own."""

    def plan(self) -> Plan:
        names = self.names
        return Plan({names.q: Shard("outputs"), names.o: Shard("inputs")})

    def readers(self) -> tuple[str, ...]:
        return (self.names.q,)

    def build(self) -> Any:
        return SharedAttention(self)


class SharedAttention(Module):
    """x (B, L, hidden) → (B, L, hidden), by the keys and values that another layer saw."""

    def __init__(self, spec: SharedAttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        names, features = spec.names, spec.heads * spec.head_dim
        self._names = names
        self._scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        self._rope = spec.rope.build() if spec.rope else None
        self[names.q] = nn.Linear(spec.hidden_size, features, bias=spec.qkv_bias)
        self[names.o] = nn.Linear(features, spec.hidden_size, bias=spec.out_bias)
        self._norm = names.q_norm if spec.qk_norm else None
        if spec.qk_norm:
            self[names.q_norm] = spec.qk_norm.build(spec.head_dim)

    def attend(self, x: mx.array, mask: Mask, seen: Seen) -> mx.array:
        batch, length, _ = x.shape
        queries = self[self._names.q](x).reshape(batch, length, self.spec.heads, -1)
        if self._norm is not None:
            queries = self[self._norm](queries)
        queries = queries.transpose(0, 2, 1, 3)
        rope = self._rope
        if rope is not None:
            queries = rope.rotate(queries, seen.offset, rope.base, rope.freqs)
        keys, values = seen.keys_values
        out = scaled_dot_product_attention(
            queries, keys, values, cache=seen.cache, scale=self._scale, mask=mask
        )
        return self[self._names.o](out.transpose(0, 2, 1, 3).reshape(batch, length, -1))  # type: ignore[no-any-return]
