"""Qwen 2 and 2.5: biased queries, keys and values; windows only from some layer on."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec


@dataclass(frozen=True, kw_only=True)
class Qwen2Config(DecoderConfig):
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qkv_bias=True)

    def layer_type(self, layer: int) -> str:
        if not self.use_sliding_window or self.sliding_window is None:
            return FULL
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if layer >= self.max_window_layers else FULL


ARCHITECTURE = Architecture("qwen2", Qwen2Config, causal_lm)
