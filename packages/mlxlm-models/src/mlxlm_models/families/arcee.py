"""AFM (Arcee): Llama with a plain squared-ReLU MLP."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.mlp import MLPSpec


@dataclass(frozen=True, kw_only=True)
class ArceeConfig(DecoderConfig):
    hidden_act: str = "relu2"
    rms_norm_eps: float = 1e-5

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), gated=False)


ARCHITECTURE = Architecture("arcee", ArceeConfig, causal_lm)
