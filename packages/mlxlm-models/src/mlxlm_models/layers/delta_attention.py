"""Kimi delta attention (Kimi Linear, 2025): a state in place of keys and values."""

from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import ArraysCache, Cache, Mask

from mlxlm_models.layers.delta_rule import delta_rule
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, Shard
from mlxlm_models.layers.short_conv import ShortConv


@dataclass(frozen=True, kw_only=True)
class DeltaAttentionSpec:
    """What one layer is.

    The decay and the output gate are projected from x at once, or by way of `head_dim`
    features where `low_rank`. The logarithm of the decay is -exp(A) softplus(f), or between
    0 and `lower_bound`: lower_bound sigmoid(exp(A) f).
    """

    hidden_size: int
    heads: int
    head_dim: int
    kernel: int
    norm: NormSpec
    low_rank: bool
    lower_bound: float | None = None

    @property
    def window(self) -> int | None:
        return None

    @property
    def chunk(self) -> int | None:
        return None

    @property
    def mask_array(self) -> bool:
        return False

    @property
    def recurrent(self) -> bool:
        """Whether the mask tells tokens from padding, and nothing more."""
        return True

    def divided(self, parts: int) -> "DeltaAttentionSpec":
        """Return what each of `parts` members computes; ValueError where heads don't divide."""
        if self.heads % parts:
            raise ValueError(f"{self.heads} heads cannot be divided among {parts}")
        return replace(self, heads=self.heads // parts)

    def plan(self) -> Plan:
        rows = ["q_proj", "k_proj", "v_proj", "b_proj"]
        rows += ["f_b_proj", "g_b_proj"] if self.low_rank else ["f_proj", "g_proj"]
        own = ["q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight", "A_log", "dt_bias"]
        shards = {name: Shard("outputs") for name in rows} | {"o_proj": Shard("inputs")}
        return Plan(shards | {name: Shard("heads") for name in own})

    def readers(self) -> tuple[str, ...]:
        """Return the names of the layers that read the input."""
        more = ("f_a_proj", "g_a_proj") if self.low_rank else ("f_proj", "g_proj")
        return ("q_proj", "k_proj", "v_proj", "b_proj", *more)

    def build(self) -> "DeltaAttention":
        return DeltaAttention(self)


class DeltaAttention(Module):
    """x (B, L, hidden) → (B, L, hidden), reading and replacing the state in `cache`."""

    def __init__(self, spec: DeltaAttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        hidden, total = spec.hidden_size, spec.heads * spec.head_dim
        for name in "qkv":
            self[f"{name}_proj"] = nn.Linear(hidden, total, bias=False)
            self[f"{name}_conv1d"] = ShortConv(total, spec.kernel)
        for name in "fg":
            if spec.low_rank:
                self[f"{name}_a_proj"] = nn.Linear(hidden, spec.head_dim, bias=False)
                self[f"{name}_b_proj"] = nn.Linear(spec.head_dim, total, bias=False)
            else:
                self[f"{name}_proj"] = nn.Linear(hidden, total, bias=False)
        self.b_proj = nn.Linear(hidden, spec.heads, bias=False)
        self.A_log = mx.zeros((spec.heads,))
        self.dt_bias = mx.zeros((total,))
        self.o_norm = spec.norm.build(spec.head_dim)
        self.o_proj = nn.Linear(total, hidden, bias=False)

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        state: Any = cache
        if state is not None and state.recording and x.shape[1] > 1:
            # The state after every token is one to go back to.
            parts = []
            for i in range(x.shape[1]):
                token = slice(i, i + 1)
                some = mask[:, token] if isinstance(mask, mx.array) else None
                parts.append(self(x[:, token], some, state))
            return mx.concatenate(parts, axis=1)
        tokens = mask if isinstance(mask, mx.array) else None
        if tokens is not None:
            x = mx.where(tokens[..., None], x, 0)
        ends = state.lengths if state is not None else None
        mixed = []
        for i, name in enumerate("qkv"):
            before = None if state is None else state[i]
            y, after = self[f"{name}_conv1d"](self[f"{name}_proj"](x), before, ends)
            mixed.append(self._heads(nn.silu(y)).astype(mx.float32))
            if state is not None:
                state[i] = after
        queries, keys, values = mixed
        queries = _unit(queries) * self.spec.head_dim**-0.5
        decay = self._decay(x)
        beta = mx.sigmoid(self["b_proj"](x).astype(mx.float32)).swapaxes(1, 2)
        if tokens is not None:
            # Padding leaves the state as it is.
            decay = mx.where(tokens[:, None, :, None], decay, 0)
            beta = mx.where(tokens[:, None], beta, 0)
        before = None if state is None else state[3]
        out, after = delta_rule(queries, _unit(keys), values, decay, beta, before)
        if state is not None:
            state[3] = after
            state.advance(x.shape[1])
        out = self["o_norm"](out.swapaxes(1, 2))
        gate = mx.sigmoid(self._projected("g", x).astype(mx.float32))
        out = out.flatten(-2) * gate
        return self["o_proj"](out.astype(x.dtype))  # type: ignore[no-any-return]

    def make_cache(self) -> Cache:
        """Return an empty cache: the last inputs of three convolutions, and the state."""
        return ArraysCache(4)

    def _decay(self, x: mx.array) -> mx.array:
        """Return the logarithm of the decay (B, H, L, D), float32."""
        f = self._heads(self._projected("f", x).astype(mx.float32) + self["dt_bias"])
        rate = mx.exp(self["A_log"].astype(mx.float32)).reshape(-1, 1, 1)
        bound = self.spec.lower_bound
        if bound is None:
            return -rate * mx.logaddexp(f, 0)
        return bound * mx.sigmoid(rate * f)

    def _projected(self, name: str, x: mx.array) -> mx.array:
        if self.spec.low_rank:
            return self[f"{name}_b_proj"](self[f"{name}_a_proj"](x))  # type: ignore[no-any-return]
        return self[f"{name}_proj"](x)  # type: ignore[no-any-return]

    def _heads(self, x: mx.array) -> mx.array:
        """Return (B, H, L, D) of (B, L, H * D)."""
        return mx.unflatten(x, -1, (-1, self.spec.head_dim)).swapaxes(1, 2)


def _unit(x: mx.array) -> mx.array:
    return x * mx.rsqrt((x * x).sum(axis=-1, keepdims=True) + 1e-6)
