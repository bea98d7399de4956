"""Queries that grow with the position, so that attention stays sharp over long texts."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache


@dataclass(frozen=True)
class TemperatureSpec:
    """Multiply the query at position p by 1 + strength * log(1 + floor((p + shift) / length)).

    Llama 4 shifts positions by one; Ministral 3 doesn't.
    """

    strength: float
    length: int
    shift: int = 0

    def __call__(self, queries: mx.array, cache: Cache | None) -> mx.array:
        """Scale queries (B, heads, L, D) that follow what `cache` holds."""
        steps = mx.arange(queries.shape[-2]) + self.shift
        offset: Any = 0 if cache is None else cache.offset
        if isinstance(offset, int):
            if offset + queries.shape[-2] + self.shift <= self.length:
                return queries
            positions = (steps + offset)[:, None]
        else:
            # What comes before a sequence's first token is padding.
            positions = mx.maximum(steps + offset[:, None], 0)[:, None, :, None]
        steps = mx.floor(positions.astype(mx.float32) / self.length)
        return queries * (1 + self.strength * mx.log1p(steps)).astype(queries.dtype)
