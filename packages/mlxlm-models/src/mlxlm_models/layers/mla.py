"""Multi-head latent attention (DeepSeek-V2, 2024): keys and values from one small latent."""

from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, KVCache, Mask, create_causal_mask, scaled_dot_product_attention

from mlxlm_models.layers.module import Module
from mlxlm_models.layers.multilinear import MultiLinear
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup, Shard
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.temperature import TemperatureSpec


@dataclass(frozen=True, kw_only=True)
class MLASpec:
    """What one latent-attention layer is.

    Of each query and key head, `nope_dim` features have no position and `rope_dim` are
    rotated; the rotated part of the key is shared by all heads. Without `q_lora_rank` the
    queries come from one projection. `scale` is (nope_dim + rope_dim) ** -0.5 unless given.
    `q_scale` and `kv_scale` multiply the normalised latents. With `head_gate`, what a head
    found is multiplied by the sigmoid of a projection of the input, `g_proj`.
    """

    hidden_size: int
    heads: int
    kv_lora_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    rope: RopeSpec | None
    norm: NormSpec
    q_lora_rank: int | None = None
    scale: float | None = None
    q_scale: float | None = None
    kv_scale: float | None = None
    bias: bool = False
    out_bias: bool | None = None
    temperature: TemperatureSpec | None = None
    head_gate: bool = False

    @property
    def head_dim(self) -> int:
        return self.nope_dim + self.rope_dim

    @property
    def window(self) -> int | None:
        return None

    @property
    def chunk(self) -> int | None:
        return None

    @property
    def mask_array(self) -> bool:
        return False

    def divided(self, parts: int) -> "MLASpec":
        """Return what each of `parts` members computes; ValueError where heads don't divide."""
        if self.heads % parts:
            raise ValueError(f"{self.heads} heads cannot be divided among {parts}")
        return replace(self, heads=self.heads // parts)

    def plan(self) -> Plan:
        query = "q_proj" if self.q_lora_rank is None else "q_b_proj"
        shards = {
            query: Shard("outputs"),
            "embed_q": Shard("heads"),
            "unembed_out": Shard("heads"),
            "o_proj": Shard("inputs"),
        }
        if self.head_gate:
            shards["g_proj"] = Shard("outputs")
        scaled = self.q_lora_rank is not None and self.q_scale is None
        groups = (ScaleGroup("q_a_layernorm", ("q_b_proj",), "q_b_proj"),) if scaled else ()
        return Plan(shards, groups)

    def readers(self) -> tuple[str, ...]:
        """Return the names of the layers that read the input."""
        query = "q_proj" if self.q_lora_rank is None else "q_a_proj"
        gate = ("g_proj",) if self.head_gate else ()
        return (query, "kv_a_proj_with_mqa", *gate)

    def build(self) -> "LatentAttention":
        return LatentAttention(self)


class LatentAttention(Module):
    """x (B, L, hidden) → (B, L, hidden); the cache holds latents and rotated keys.

    For few queries the up-projections move to the query and output side (`embed_q`,
    `unembed_out`), so that the latent itself is attended to; for many it is cheaper to make
    every head's keys and values. Both give the same result.
    """

    def __init__(self, spec: MLASpec) -> None:
        super().__init__()
        self.spec = spec
        self._scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        self._rope = spec.rope.build() if spec.rope else None
        hidden, heads, lora = spec.hidden_size, spec.heads, spec.kv_lora_rank
        self._query = "q_proj" if spec.q_lora_rank is None else "q_b_proj"
        if spec.q_lora_rank is None:
            self.q_proj = nn.Linear(hidden, heads * spec.head_dim, bias=False)
        else:
            self.q_a_proj = nn.Linear(hidden, spec.q_lora_rank, bias=spec.bias)
            self.q_a_layernorm = spec.norm.build(spec.q_lora_rank)
            self.q_b_proj = nn.Linear(spec.q_lora_rank, heads * spec.head_dim, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(hidden, lora + spec.rope_dim, bias=spec.bias)
        self.kv_a_layernorm = spec.norm.build(lora)
        self.embed_q = MultiLinear(heads, spec.nope_dim, lora)
        self.unembed_out = MultiLinear(heads, lora, spec.value_dim)
        out_bias = spec.bias if spec.out_bias is None else spec.out_bias
        self.o_proj = nn.Linear(heads * spec.value_dim, hidden, bias=out_bias)
        if spec.head_gate:
            self.g_proj = nn.Linear(hidden, heads, bias=False)
        # Multiplications per head and cached token: absorbed, each query costs the first;
        # expanded, making the head costs the second and each query the third.
        absorbed, head = 2 * lora + spec.rope_dim, spec.head_dim + spec.value_dim
        expansion = lora * (spec.nope_dim + spec.value_dim)
        self._few = expansion // (absorbed - head) if absorbed > head else 1 << 30

    def __call__(self, x: mx.array, mask: Mask = None, cache: Cache | None = None) -> mx.array:
        gate = None
        if self.spec.head_gate:
            gate = mx.sigmoid(self["g_proj"](x)).swapaxes(1, 2)[..., None]
        return self.attend(*self.project(x, self.query_input(x), cache), mask, cache, gate)

    def query_input(self, x: mx.array) -> mx.array:
        """Return what the queries are projected from: their latent, or x itself."""
        if self.spec.q_lora_rank is None:
            return x
        latent: mx.array = self["q_a_layernorm"](self["q_a_proj"](x))
        return latent if self.spec.q_scale is None else latent * self.spec.q_scale

    def project(
        self, x: mx.array, query_input: mx.array, cache: Cache | None
    ) -> tuple[mx.array, mx.array, tuple[Any, Any]]:
        """Return the queries' two parts (B, heads, L, D), and what `cache` then holds."""
        spec = self.spec
        batch, length, _ = x.shape
        queries = self[self._query](query_input)
        queries = queries.reshape(batch, length, spec.heads, -1).transpose(0, 2, 1, 3)
        q_nope, q_rope = mx.split(queries, [spec.nope_dim], axis=-1)
        latent, k_rope = mx.split(self["kv_a_proj_with_mqa"](x), [spec.kv_lora_rank], axis=-1)
        latent = self["kv_a_layernorm"](latent)
        if spec.kv_scale is not None:
            latent = latent * spec.kv_scale
        latent, k_rope = latent[:, None], k_rope[:, None]
        if self._rope is not None:
            q_rope, k_rope = self._rope(q_rope, k_rope, cache)
        if spec.temperature is not None:
            q_nope, q_rope = (spec.temperature(q, cache) for q in (q_nope, q_rope))
        seen: Any = (latent, k_rope) if cache is None else cache.update_and_fetch(latent, k_rope)
        return q_nope, q_rope, seen

    def attend(
        self,
        q_nope: mx.array,
        q_rope: mx.array,
        seen: tuple[Any, Any],
        mask: Mask,
        cache: Cache | None,
        gate: mx.array | None = None,
    ) -> mx.array:
        """Return (B, L, hidden) for what `project` returns; `gate` is (B, heads, L, 1)."""
        batch, _, length, _ = q_nope.shape
        way = self._absorbed if length < self._few else self._expanded
        out = way(q_nope, q_rope, seen, mask, cache)
        if gate is not None:
            out = out * gate
        out = out.transpose(0, 2, 1, 3).reshape(batch, length, -1)
        return self["o_proj"](out)  # type: ignore[no-any-return]

    def make_cache(self) -> Cache:
        """Return an empty cache: as keys the latents, as values the rotated keys."""
        return KVCache()

    def _absorbed(
        self,
        q_nope: mx.array,
        q_rope: mx.array,
        seen: tuple[Any, Any],
        mask: Mask,
        cache: Any,
    ) -> mx.array:
        latent, k_rope = seen
        scores = _scores(q_rope * self._scale, k_rope, cache)
        if isinstance(mask, str):
            length, total = scores.shape[-2:]
            mask = create_causal_mask(length, total - length)
        if mask is not None:
            if mask.dtype == mx.bool_:
                scores = mx.where(mask, scores, mx.array(mx.finfo(scores.dtype).min, scores.dtype))
            else:
                scores = scores + mask
        out = scaled_dot_product_attention(
            self["embed_q"](q_nope), latent, latent, cache=cache, scale=self._scale, mask=scores
        )
        return self["unembed_out"](out)  # type: ignore[no-any-return]

    def _expanded(
        self,
        q_nope: mx.array,
        q_rope: mx.array,
        seen: tuple[Any, Any],
        mask: Mask,
        cache: Any,
    ) -> mx.array:
        latent, k_rope = (unpacked(part, cache) for part in seen)
        k_nope = self["embed_q"].transposed(latent)
        k_rope = mx.broadcast_to(k_rope, (*k_nope.shape[:-1], k_rope.shape[-1]))
        return scaled_dot_product_attention(
            mx.concatenate([q_nope, q_rope], axis=-1),
            mx.concatenate([k_nope, k_rope], axis=-1),
            self["unembed_out"](latent),
            cache=cache,
            scale=self._scale,
            mask=mask,
        )


def _scores(queries: mx.array, keys: Any, cache: Any) -> mx.array:
    """Return queries (B, heads, L, D) times keys (B, 1, S, D), packed or not."""
    if not isinstance(keys, tuple):
        return queries @ keys.swapaxes(-1, -2)  # type: ignore[no-any-return]
    packed, scales, biases = keys
    return mx.quantized_matmul(
        queries,
        packed,
        scales,
        biases,
        transpose=True,
        group_size=cache.group_size,
        bits=cache.bits,
    )


def unpacked(array: Any, cache: Any) -> mx.array:
    """Return what a cache's `update_and_fetch` gave, dequantized if it is packed."""
    if not isinstance(array, tuple):
        return array  # type: ignore[no-any-return]
    packed, scales, biases = array
    return mx.dequantize(packed, scales, biases, group_size=cache.group_size, bits=cache.bits)
