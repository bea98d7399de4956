"""Spark X2.5: windows with a base of their own, a gate for each head."""

from dataclasses import dataclass, replace
from typing import Literal

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec


@dataclass(frozen=True, kw_only=True)
class SparkConfig(DecoderConfig):
    hidden_act: str = "gelu"
    max_position_embeddings: int | None = 8192
    tie_word_embeddings: bool = True
    headwise_attn_output_gate: bool = True
    gate_attn_act_mode: str = "sigmoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate_attn_act_mode not in ("sigmoid", "silu"):
            raise self.fail(
                "gate_attn_act_mode", f"{self.gate_attn_act_mode!r} is neither sigmoid nor silu"
            )

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), names=DecoderNames(embeddings="embedding"))

    def attention(self, layer: int) -> AttentionSpec:
        activation: Literal["sigmoid", "silu"]
        activation = "sigmoid" if self.gate_attn_act_mode == "sigmoid" else "silu"
        return replace(
            super().attention(layer),
            fused="rows",
            gate="heads" if self.headwise_attn_output_gate else None,
            gate_activation=activation,
            gate_bias=self.attention_bias,
            names=AttentionNames(qkv="q_k_v_proj", o="out_proj", gate="g_proj"),
        )


ARCHITECTURE = Architecture("spark2_5", SparkConfig, causal_lm)
