"""Hunyuan, dense: queries and keys normalised after rotation, a base that `alpha` stretches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec


@dataclass(frozen=True, kw_only=True)
class HunyuanDenseConfig(DecoderConfig):
    rms_norm_eps: float = 1e-5
    use_qk_norm: bool = True

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            qk_norm=self.norm() if self.use_qk_norm else None,
            norm_rotated=True,
            names=AttentionNames(q_norm="query_layernorm", k_norm="key_layernorm"),
        )

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = super().rope_values(layer_type)
        alpha, dims = values.get("alpha"), self.head_size
        if not alpha or values.get("rope_type", values.get("type")) != "dynamic":
            return values
        return {"rope_theta": values["rope_theta"] * alpha ** (dims / (dims - 2))}


ARCHITECTURE = Architecture("hunyuan_v1_dense", HunyuanDenseConfig, causal_lm)
