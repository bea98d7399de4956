"""BitNet b1.58: a norm before each output projection, and a squared-ReLU gate."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.mlp import MLPSpec


@dataclass(frozen=True, kw_only=True)
class BitNetConfig(DecoderConfig):
    hidden_act: str = "relu2"
    num_key_value_heads: int | None = 5
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), inner_norm=self.norm())

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), inner_norm=self.norm())


ARCHITECTURE = Architecture("bitnet", BitNetConfig, causal_lm)
