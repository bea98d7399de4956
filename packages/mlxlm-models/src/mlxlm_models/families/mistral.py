"""Mistral: Llama, with every layer behind the sliding window."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm


@dataclass(frozen=True, kw_only=True)
class MistralConfig(DecoderConfig):
    sliding_window: int | None = 4096

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return FULL if self.sliding_window is None else SLIDING


@dataclass(frozen=True, kw_only=True)
class MinistralConfig(MistralConfig):
    """Ministral 8B: the same; `layer_types` tell which layers have the window."""


MINISTRAL = Architecture("ministral", MinistralConfig, causal_lm)
ARCHITECTURE = Architecture("mistral", MistralConfig, causal_lm)
