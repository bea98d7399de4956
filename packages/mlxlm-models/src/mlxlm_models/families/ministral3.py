"""Ministral 3: Mistral whose queries grow with the position."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.mistral import MistralConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.temperature import TemperatureSpec


@dataclass(frozen=True, kw_only=True)
class Ministral3Config(MistralConfig):
    head_dim: int | None = 128
    rms_norm_eps: float = 1e-5
    sliding_window: int | None = None

    def attention(self, layer: int) -> AttentionSpec:
        values = self.rope_values(self.layer_type(layer))
        beta = values.get("llama_4_scaling_beta")
        length = values.get("original_max_position_embeddings")
        if not beta:
            return super().attention(layer)
        if not length:
            raise self.fail("original_max_position_embeddings", "llama_4_scaling_beta needs it")
        temperature = TemperatureSpec(float(beta), int(length))
        return replace(super().attention(layer), temperature=temperature)


ARCHITECTURE = Architecture("ministral3", Ministral3Config, causal_lm)
