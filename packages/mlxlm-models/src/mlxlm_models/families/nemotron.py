"""Nemotron 3 and 4: 1 + w layer norms, squared ReLU, half of each head rotated."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.norms import NormSpec


@dataclass(frozen=True, kw_only=True)
class NemotronConfig(DecoderConfig):
    hidden_act: str = "relu2"
    norm_eps: float = 1e-5
    partial_rotary_factor: float | None = 0.5

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), gated=False)

    def norm(self) -> NormSpec:
        return NormSpec(self.norm_eps, kind="layer_offset", bias=True)


ARCHITECTURE = Architecture("nemotron", NemotronConfig, causal_lm)
