"""gpt-oss: attention sinks, windows in every other layer, biased experts in MXFP4."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.activations import ClippedSwiGLU
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.rules import COMMON_RULES, Weights, split_experts

DEFAULT_ROPE = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


@dataclass(frozen=True, kw_only=True)
class GptOssConfig(MoEConfig):
    head_dim: int | None = 64
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 150000.0
    attention_bias: bool = True
    sliding_window: int | None = 128
    num_experts: int = 128
    num_experts_per_tok: int = 4
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), sinks=True)

    def moe(self, layer: int) -> MoESpec:
        return replace(
            super().moe(layer),
            bias=True,
            activation=ClippedSwiGLU(self.swiglu_limit, self.swiglu_alpha, shift=1.0),
            router=replace(self.router(), bias=True),
            names=MoENames(gate="router", experts="experts"),
        )

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return FULL if layer % 2 else SLIDING

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        if self.rope_scaling is None and self.rope_parameters is None:
            return DEFAULT_ROPE | {"rope_theta": self.rope_theta}
        return super().rope_values(layer_type)


def unpack_mxfp4(weights: Weights, config: GptOssConfig) -> Weights:
    """Read `…_blocks` (experts, outputs, groups, 16), bytes of two values each, and `…_scales`.

    MLX wants the same bits as 32-bit words, (experts, outputs, inputs / 8).
    """
    result: Weights = {}
    for name, value in weights.items():
        if name.endswith("_blocks"):
            words = value.flatten(-2).view(mx.uint32)
            result[name.removesuffix("_blocks") + ".weight"] = words
        elif name.endswith("_proj_scales"):
            result[name.removesuffix("_scales") + ".scales"] = value
        else:
            result[name] = value
    return result


ARCHITECTURE = Architecture(
    "gpt_oss",
    GptOssConfig,
    causal_lm,
    (
        *COMMON_RULES,
        unpack_mxfp4,
        *split_experts("mlp.experts", "mlp.experts", transposed=True, interleaved=True),
    ),
)
