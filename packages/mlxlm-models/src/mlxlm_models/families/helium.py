"""Helium: Llama with RoPE in pairs."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec


@dataclass(frozen=True, kw_only=True)
class HeliumConfig(DecoderConfig):
    head_dim: int | None = 128
    rms_norm_eps: float = 1e-8
    rope_theta: float = 100000.0
    rope_traditional: bool = True

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), out_bias=False)


ARCHITECTURE = Architecture("helium", HeliumConfig, causal_lm)
