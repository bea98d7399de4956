"""PLaMo: Llama with parallel blocks on one norm, and keys dealt out in turn."""

from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, Mask

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import Attention, AttentionSpec
from mlxlm_models.layers.block import BlockSpec, NormNames
from mlxlm_models.layers.plan import Plan, Shard
from mlxlm_models.layers.spec import recast
from mlxlm_models.rules import COMMON_RULES, Rename


@dataclass(frozen=True, kw_only=True)
class DealtAttentionSpec(AttentionSpec):
    """Head h attends by key h % kv_heads, where others have a key for consecutive heads."""

    def plan(self) -> Plan:
        plan, names = super().plan(), self.names
        rounds = (self.kv_heads * self.head_dim,) * (self.heads // self.kv_heads)
        dealt = {names.q: Shard("outputs", rounds), names.o: Shard("inputs", rounds)}
        return replace(plan, shards=plan.shards | dealt)

    def build(self) -> "DealtAttention":
        return DealtAttention(self)


class DealtAttention(Attention):
    def look(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: Mask = None,
        cache: Cache | None = None,
    ) -> tuple[mx.array, Any]:
        shared = keys.shape[1]
        found, seen = super().look(_regrouped(queries, -1, shared), keys, values, mask, cache)
        return _regrouped(found, shared, -1), seen


def _regrouped(heads: mx.array, rows: int, columns: int) -> mx.array:
    """Read the heads (B, rows * columns, L, size) row by row; return them column by column."""
    return mx.unflatten(heads, 1, (rows, columns)).swapaxes(1, 2).flatten(1, 2)


@dataclass(frozen=True, kw_only=True)
class PlamoConfig(DecoderConfig):
    """`n_shared_head` is how many heads share a key, whatever `num_key_value_heads` says."""

    max_position_embeddings: int | None = 2048
    n_shared_head: int = 8

    @property
    def kv_heads(self) -> int:
        heads, shared = self.num_attention_heads, self.n_shared_head
        if shared <= 0 or heads % shared:
            raise self.fail("n_shared_head", f"{heads} heads are no groups of {shared}")
        return heads // shared

    def attention(self, layer: int) -> AttentionSpec:
        return recast(DealtAttentionSpec, super().attention(layer))

    def block(self, layer: int) -> BlockSpec:
        norms = NormNames(before_attention="norm")
        return replace(super().block(layer), norms=norms, parallel=True)


ARCHITECTURE = Architecture(
    "plamo",
    PlamoConfig,
    causal_lm,
    (Rename(r"model\.layers\.layers\.", "model.layers."), *COMMON_RULES),
)
