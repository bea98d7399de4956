"""Baichuan M1: keys and values mixed with the token's before, heads that differ by layer."""

from dataclasses import dataclass, replace

import mlx.core as mx

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.conv_attention import ConvAttentionSpec
from mlxlm_models.layers.spec import recast
from mlxlm_models.rules import COMMON_RULES, Weights

_HEAD = "lm_head"


@dataclass(frozen=True, kw_only=True)
class BaichuanM1Config(DecoderConfig):
    """`sliding_window_layers` have a window, and heads of their own number."""

    rope_theta: float = 100000.0
    sliding_window: int | None = 8192
    sliding_window_layers: list[int] | None = None
    num_swa_attention_heads: int | None = None
    num_swa_key_value_heads: int | None = None
    conv_window: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conv_window != 2:
            raise self.fail("conv_window", f"{self.conv_window} is not 2, as it always is")
        if self.tie_word_embeddings:
            raise self.fail("tie_word_embeddings", "the head's rows have length one, and no others")

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        if self.layer_type(layer) == SLIDING:
            heads = self.num_swa_attention_heads or spec.heads
            shared = self.num_swa_key_value_heads or spec.kv_heads
            if self.hidden_size % heads or heads % shared:
                raise self.fail(
                    "num_swa_attention_heads",
                    f"{heads} heads with {shared} keys don't divide {self.hidden_size} evenly",
                )
            size = self.hidden_size // heads
            spec = replace(spec, heads=heads, kv_heads=shared, head_dim=size)
            spec = replace(spec, rope=spec.rope and replace(spec.rope, dims=size))
        return recast(
            ConvAttentionSpec,
            spec,
            taps=self.conv_window,
            fused="rows",
            names=AttentionNames(qkv="W_pack"),
        )

    def layer_type(self, layer: int) -> str:
        return SLIDING if layer in (self.sliding_window_layers or ()) else FULL


def unit_rows(weights: Weights, config: BaichuanM1Config) -> Weights:
    """Give the rows of the head length one, as the model uses them; packed ones have it."""
    head = weights.get(f"{_HEAD}.weight")
    if head is None or f"{_HEAD}.scales" in weights:
        return weights
    wide = head.astype(mx.float32)
    lengths = mx.linalg.norm(wide, axis=-1, keepdims=True)
    unit = (wide / mx.maximum(lengths, 1e-12)).astype(head.dtype)
    return {**weights, f"{_HEAD}.weight": unit}


ARCHITECTURE = Architecture("baichuan_m1", BaichuanM1Config, causal_lm, (*COMMON_RULES, unit_rows))
