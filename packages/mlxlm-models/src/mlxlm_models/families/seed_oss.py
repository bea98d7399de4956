"""Seed-OSS: Llama with biases on the projections into attention."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec


@dataclass(frozen=True, kw_only=True)
class SeedOssConfig(DecoderConfig):
    head_dim: int | None = 128
    num_key_value_heads: int | None = 8
    attention_bias: bool = True
    attention_out_bias: bool = False

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), out_bias=self.attention_out_bias)


ARCHITECTURE = Architecture("seed_oss", SeedOssConfig, causal_lm)
