"""MiMo-V2-Flash: windows with sinks and twice the key heads, small values, DeepSeek's routing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.rules import COMMON_RULES, Drop, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class MiMoV2FlashConfig(GroupedMoEConfig):
    """`sliding_window_size` doesn't count the query, `sliding_window` does.

    `hybrid_layer_pattern` has a 1 for each layer with a window.
    """

    num_key_value_heads: int | None = 4
    head_dim: int | None = 192
    v_head_dim: int = 128
    num_experts: int = 256
    num_experts_per_tok: int = 8
    rope_theta: float = 5000000.0
    swa_rope_theta: float = 10000.0
    partial_rotary_factor: float | None = 0.334
    sliding_window: int | None = 129
    sliding_window_size: int | None = None
    swa_num_key_value_heads: int | None = None
    hybrid_layer_pattern: list[int] | None = None
    mlp_layer_types: list[str] | None = None
    first_k_dense_replace: int = 1
    moe_layer_freq: int | list[int] = 1  # type: ignore[assignment]
    attention_value_scale: float | None = 0.707

    def attention(self, layer: int) -> AttentionSpec:
        windowed = self.layer_type(layer) == SLIDING
        return replace(
            super().attention(layer),
            kv_heads=(self.swa_num_key_value_heads or 2 * self.kv_heads)
            if windowed
            else self.kv_heads,
            value_dim=self.v_head_dim,
            value_scale=self.attention_value_scale,
            sinks=windowed,
            out_bias=False,
            names=AttentionNames(sinks="attention_sink_bias"),
        )

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        if self.hybrid_layer_pattern:
            return SLIDING if self.hybrid_layer_pattern[layer] else FULL
        return FULL if layer == 0 or (layer + 1) % 6 == 0 else SLIDING

    def window(self, layer: int) -> int | None:
        if self.layer_type(layer) == SLIDING and self.sliding_window_size is not None:
            return self.sliding_window_size + 1
        return super().window(layer)

    def has_experts(self, layer: int) -> bool:
        if self.mlp_layer_types:
            return self.mlp_layer_types[layer] == "sparse"
        if isinstance(self.moe_layer_freq, list):
            return bool(self.moe_layer_freq[layer])
        return super().has_experts(layer)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = super().rope_values(layer_type)
        nested = layer_type in (self.rope_parameters or {})
        return (
            values
            if nested or layer_type == FULL
            else {**values, "rope_theta": self.swa_rope_theta}
        )


ARCHITECTURE = Architecture(
    "mimo_v2_flash",
    MiMoV2FlashConfig,
    causal_lm,
    (
        Drop("model.mtp.*"),
        *COMMON_RULES,
        drop_extra_layers,
        *stack_experts("mlp.experts", "mlp.switch_mlp"),
    ),
)
