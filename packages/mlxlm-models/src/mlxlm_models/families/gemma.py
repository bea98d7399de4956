"""Gemma 1: scaled embeddings, 1 + w norms, a GELU gate."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.norms import NormSpec


@dataclass(frozen=True, kw_only=True)
class GemmaConfig(DecoderConfig):
    head_dim: int | None = 256
    hidden_act: str = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), embedding_scale=self.hidden_size**0.5)

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps, kind="rms_offset")

    def activation(self, key: str) -> str:
        name = super().activation(key)
        # The first releases say "gelu" and mean the tanh approximation.
        return "gelu_pytorch_tanh" if name == "gelu" else name


ARCHITECTURE = Architecture("gemma", GemmaConfig, causal_lm)
