"""MiniCPM: Llama, or latent attention, with scaled embeddings, residuals and logits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.families.mla import MLAConfig, split_key_value_heads
from mlxlm_models.layers.block import BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.rules import COMMON_RULES


@dataclass(frozen=True, kw_only=True)
class MiniCPMConfig(DecoderConfig):
    """The scales follow the depth and the width that the smallest model was tuned at (muP)."""

    rms_norm_eps: float = 1e-5
    scale_emb: float = 12.0
    scale_depth: float | None = 1.4
    dim_model_base: int | None = 256

    def decoder(self) -> DecoderSpec:
        width = self.dim_model_base or self.hidden_size
        return replace(
            super().decoder(),
            embedding_scale=self.scale_emb,
            logit_scale=width / self.hidden_size,
        )

    def block(self, layer: int) -> BlockSpec:
        depth = self.scale_depth
        scale = None if depth is None else depth / self.num_hidden_layers**0.5
        return replace(super().block(layer), residual_scale=scale)


@dataclass(frozen=True, kw_only=True)
class MiniCPM3Config(MLAConfig, MiniCPMConfig):
    kv_lora_rank: int = 256
    q_lora_rank: int | None = 768
    qk_nope_head_dim: int = 64
    qk_rope_head_dim: int = 32
    rope_traditional: bool = False
    rope_interleave: bool = False
    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        hidden, heads = data.get("hidden_size"), data.get("num_attention_heads")
        if data.get("v_head_dim") is None and isinstance(hidden, int) and isinstance(heads, int):
            data = {**data, "v_head_dim": hidden // heads}
        return super().from_dict(data)


MINICPM = Architecture("minicpm", MiniCPMConfig, causal_lm)
MINICPM3 = Architecture(
    "minicpm3", MiniCPM3Config, causal_lm, (*COMMON_RULES, split_key_value_heads)
)
