"""Causal self-attention with grouped key-value heads, and its many options."""

from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import (
    Cache,
    ChunkedKVCache,
    KVCache,
    Mask,
    RotatingKVCache,
    scaled_dot_product_attention,
)

from mlxlm_models.layers.activations import ACTIVATIONS
from mlxlm_models.layers.alibi import biased
from mlxlm_models.layers.attention_spec import AttentionNames, AttentionSpec
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.softcap import soft_capped_attention

__all__ = ["Attention", "AttentionNames", "AttentionSpec", "FusedAttention"]


class Attention(Module):
    """x (B, L, hidden) → (B, L, hidden), reading and extending `cache`."""

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        names = spec.names
        self._names = names
        self._scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        self._rope = spec.rope.build() if spec.rope else None
        self._attend: Any = scaled_dot_product_attention
        if spec.soft_cap is not None:
            self._attend = partial(soft_capped_attention, cap=spec.soft_cap)
        self._sinks = names.sinks if spec.sinks else None
        if spec.sinks:
            self[names.sinks] = mx.zeros((spec.heads,))
        self._slopes = mx.array(spec.alibi)[:, None, None] if spec.alibi else None
        self._temperature = spec.temperature
        self._clip = spec.clip
        self._add_projections(spec)
        values = spec.heads * spec.value_size
        self[names.o] = nn.Linear(values, spec.hidden_size, bias=spec.out_bias)
        self._o = names.o
        self._inner_norm = names.inner_norm if spec.inner_norm else None
        if spec.inner_norm:
            self[names.inner_norm] = spec.inner_norm.build(values)
        self._gate = names.gate if spec.gate in ("features", "heads") else None
        if self._gate:
            rows = values if spec.gate == "features" else spec.heads
            self[names.gate] = nn.Linear(spec.hidden_size, rows, bias=spec.gate_bias)
        self._norm_before = self._norm_after = False
        if spec.qk_norm is not None:
            self._norm_before, self._norm_after = not spec.norm_rotated, spec.norm_rotated
            self[names.q_norm] = self._build_norm(spec.qk_norm, spec.heads)
            self[names.k_norm] = self._build_norm(spec.qk_norm, spec.kv_heads)
        self._flat_norm = spec.qk_norm_over == "projection"
        self._value_norm = spec.value_norm.build(spec.value_size) if spec.value_norm else None
        self._value_scale = spec.value_scale
        self._found_norm = spec.found_norm.build(spec.value_size) if spec.found_norm else None

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        return self.attend(x, mask, cache)[0]

    def attend(
        self, x: mx.array, mask: Mask = None, cache: Cache | None = None
    ) -> tuple[mx.array, Any]:
        """Return the output, and the keys and values that were attended to."""
        queries, keys, values, *gate = self.read(x)
        out, seen = self.look(queries, keys, values, mask, cache)
        return self.write(x, out, *gate), seen

    def read(self, x: mx.array) -> tuple[mx.array, ...]:
        """Return queries, keys and values, each (B, its heads, L, head_dim), and any gate."""
        queries, keys, values, gate = self._project(x)
        if self._norm_before:
            queries, keys = self._normed(queries, keys)
        if self._clip is not None:
            bound = self._clip
            queries, keys, values = (mx.clip(a, -bound, bound) for a in (queries, keys, values))
        if self._value_norm is not None:
            values = self._value_norm(values)
        if self._value_scale is not None:
            values = values * self._value_scale
        queries = queries.transpose(0, 2, 1, 3)
        keys = keys.transpose(0, 2, 1, 3)
        values = values.transpose(0, 2, 1, 3)
        return (queries, keys, values) if gate is None else (queries, keys, values, gate)

    def look(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: Mask = None,
        cache: Cache | None = None,
    ) -> tuple[mx.array, Any]:
        """Return what the heads found, (B, heads, L, value size), and what they looked at."""
        rope = self._rope
        if rope is not None:
            queries, keys = rope(queries, keys, cache)
        if self._norm_after:
            queries, keys = self._normed(queries, keys)
        if self._temperature is not None:
            queries = self._temperature(queries, cache)
        seen: Any = (keys, values) if cache is None else cache.update_and_fetch(keys, values)
        mask = self._mask(mask, seen[0], queries, cache)
        more = {} if self._sinks is None else {"sinks": self[self._sinks]}
        out = self._attend(queries, *seen, cache=cache, scale=self._scale, mask=mask, **more)
        return out, seen

    def _mask(self, mask: Mask, keys: Any, queries: mx.array, cache: Cache | None) -> Mask:
        """Return what this kind of attention makes of the mask; `cache` holds `keys` already."""
        return mask if self._slopes is None else biased(mask, self._slopes, keys, queries)

    def write(self, x: mx.array, out: mx.array, gate: mx.array | None = None) -> mx.array:
        """Return the layer's output (B, L, hidden) of what the heads found."""
        out = out.transpose(0, 2, 1, 3)
        if self._found_norm is not None:
            out = self._found_norm(out)
        if self._gate is not None:
            gate = self[self._gate](x)
        if gate is not None:
            gate = self._gated(gate)
            out = out * gate.reshape(*out.shape[:-1], -1)
        out = out.reshape(*x.shape[:-1], -1)
        if self._inner_norm is not None:
            out = self[self._inner_norm](out)
        return self[self._o](out)  # type: ignore[no-any-return]

    def _gated(self, gate: mx.array) -> mx.array:
        if self.spec.gate_activation != "softplus":
            return ACTIVATIONS[self.spec.gate_activation](gate)
        return mx.logaddexp(gate.astype(mx.float32), 0).astype(gate.dtype)

    def make_cache(self) -> Cache:
        """Return an empty cache that keeps what this layer can see."""
        window, chunk = self.spec.window, self.spec.chunk
        if chunk is not None:
            return ChunkedKVCache(chunk)
        return KVCache() if window is None else RotatingKVCache(max_size=window, keep=0)

    def _build_norm(self, norm: NormSpec, heads: int) -> nn.Module:
        spec = self.spec
        if spec.qk_norm_over == "projection":
            return norm.build(heads * spec.head_dim)
        if spec.qk_norm_over == "each_head":
            return norm.build_per_head(heads, spec.head_dim)
        return norm.build(spec.head_dim)

    def _normed(self, queries: mx.array, keys: mx.array) -> tuple[mx.array, mx.array]:
        q_norm, k_norm = self[self._names.q_norm], self[self._names.k_norm]
        if self._flat_norm:
            return (
                q_norm(queries.flatten(-2)).reshape(queries.shape),
                k_norm(keys.flatten(-2)).reshape(keys.shape),
            )
        return q_norm(queries), k_norm(keys)

    def _add_projections(self, spec: AttentionSpec) -> None:
        hidden, bias, names = spec.hidden_size, spec.qkv_bias, spec.names
        query_dim = spec.head_dim * (2 if spec.gate == "query" else 1)
        self[names.q] = nn.Linear(hidden, spec.heads * query_dim, bias=bias)
        self[names.k] = nn.Linear(hidden, spec.kv_heads * spec.head_dim, bias=bias)
        if not spec.keys_as_values:
            self[names.v] = nn.Linear(hidden, spec.kv_heads * spec.value_size, bias=bias)
        self._gated_query = spec.gate == "query"

    def _project(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array | None]:
        """Return queries, keys and values, each (B, L, its heads, head_dim), and the gate."""
        batch, length, _ = x.shape
        spec, names = self.spec, self._names
        queries = self[names.q](x).reshape(batch, length, spec.heads, -1)
        gate = None
        if self._gated_query:
            queries, gate = mx.split(queries, 2, axis=-1)
        keys = self[names.k](x).reshape(batch, length, spec.kv_heads, -1)
        if spec.keys_as_values:
            return queries, keys, keys, gate
        return queries, keys, self[names.v](x).reshape(batch, length, spec.kv_heads, -1), gate


class FusedAttention(Attention):
    """One projection for queries, keys and values; see `AttentionSpec.fused`."""

    def _add_projections(self, spec: AttentionSpec) -> None:
        if spec.gate == "query" or spec.value_size != spec.head_dim:
            raise ValueError("a fused projection has plain queries, keys and values of one size")
        rows = (spec.heads + 2 * spec.kv_heads) * spec.head_dim
        self[spec.names.qkv] = nn.Linear(spec.hidden_size, rows, bias=spec.qkv_bias)

    def _project(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array | None]:
        batch, length, _ = x.shape
        spec = self.spec
        fused = self[self._names.qkv](x)
        if spec.fused == "groups":
            fused = fused.reshape(batch, length, spec.kv_heads, -1, spec.head_dim)
            queries = fused[:, :, :, :-2].reshape(batch, length, spec.heads, spec.head_dim)
            return queries, fused[:, :, :, -2], fused[:, :, :, -1], None
        heads = fused.reshape(batch, length, -1, spec.head_dim)
        keys_end = spec.heads + spec.kv_heads
        return (
            heads[:, :, : spec.heads],
            heads[:, :, spec.heads : keys_end],
            heads[:, :, keys_end:],
            None,
        )
