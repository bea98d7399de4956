"""The lightning indexer of DeepSeek-V3.2 (2025): which earlier tokens a query attends to."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, KVCache

from mlxlm_models.layers.mla import unpacked
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec

MAX_SCORES = 1 << 26
"""How many scores of heads are computed at once."""


@dataclass(frozen=True, kw_only=True)
class IndexerSpec:
    """Small heads whose weighted scores rank the tokens that a query sees: `top_k` remain.

    The queries are projected from a latent of `query_size`; all heads share one key. The
    first features of both are rotated.
    """

    hidden_size: int
    query_size: int
    heads: int
    head_dim: int
    top_k: int
    rope: RopeSpec
    norm: NormSpec = NormSpec(1e-6, kind="layer", bias=True)

    def build(self) -> "Indexer":
        return Indexer(self)


class Indexer(Module):
    """Score of a token: the sum over heads of weight * relu(query · key), in float32."""

    def __init__(self, spec: IndexerSpec) -> None:
        super().__init__()
        self.spec = spec
        self._rope = spec.rope.build()
        self.wq_b = nn.Linear(spec.query_size, spec.heads * spec.head_dim, bias=False)
        self.wk = nn.Linear(spec.hidden_size, spec.head_dim, bias=False)
        self.k_norm = spec.norm.build(spec.head_dim)
        self.weights_proj = nn.Linear(spec.hidden_size, spec.heads, bias=False)

    def __call__(
        self, x: mx.array, query_input: mx.array, mask: mx.array | None, cache: Cache | None
    ) -> mx.array | None:
        """Return the chosen tokens' places (B, L, top_k) among the keys, in no order.

        None where there are no more than `top_k`. A query that sees fewer gets some that
        `mask`, (…, L, keys), hides: it is to be applied again.
        """
        spec = self.spec
        batch, length, _ = x.shape
        queries = self["wq_b"](query_input).reshape(batch, length, spec.heads, spec.head_dim)
        keys = self["k_norm"](self["wk"](x))[:, None]
        queries, keys = self._rope(queries.transpose(0, 2, 1, 3), keys, cache)
        if cache is not None:
            # The keys alone matter; as values, they are what mlx-lm's prompt files have too.
            keys = unpacked(cache.update_and_fetch(keys, keys)[0], cache)
        if keys.shape[-2] <= spec.top_k:
            return None
        scores = self._scores(queries, keys, self["weights_proj"](x).swapaxes(-1, -2))
        if mask is not None:
            mask = mask.squeeze(1) if mask.ndim == 4 else mask
            scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
        return mx.argpartition(-scores, spec.top_k - 1, axis=-1)[..., : spec.top_k]

    def _scores(self, queries: mx.array, keys: mx.array, weights: mx.array) -> mx.array:
        """Return (B, L, keys): a few heads at a time where there are many scores."""
        keys = keys.astype(mx.float32).swapaxes(-1, -2)
        batch, heads, length, _ = queries.shape
        step = max(1, min(heads, MAX_SCORES // (batch * length * keys.shape[-1])))
        total: Any = None
        for first in range(0, heads, step):
            some = slice(first, first + step)
            scores = mx.maximum(queries[:, some].astype(mx.float32) @ keys, 0)
            part = (scores * weights[:, some, :, None].astype(mx.float32)).sum(axis=1)
            total = part if total is None else total + part
        return total  # type: ignore[no-any-return]

    def make_cache(self) -> Cache:
        """Return an empty cache of this indexer's keys."""
        return KVCache()
