"""Phi 3, 3.5 and 4: fused projections, LongRoPE, partial rotation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.mistral import MistralConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.mlp import MLPSpec


@dataclass(frozen=True, kw_only=True)
class Phi3Config(MistralConfig):
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int | None = 4096
    original_max_position_embeddings: int | None = 4096
    sliding_window: int | None = None

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), fused="rows")

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), fused=True)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = dict(super().rope_values(layer_type))
        # Early releases call their LongRoPE "su", or even "yarn".
        kind = values.get("rope_type") or values.get("type")
        return values | {"rope_type": "longrope"} if kind in ("su", "yarn") else values


ARCHITECTURE = Architecture("phi3", Phi3Config, causal_lm)
