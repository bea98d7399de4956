"""Llama 4, text: chunked attention with RoPE in three layers of four, none in the others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.temperature import TemperatureSpec
from mlxlm_models.rules import COMMON_RULES, Rename, split_experts

CHUNKED = "chunked_attention"


@dataclass(frozen=True, kw_only=True)
class Llama4TextConfig(MoEConfig):
    """`no_rope_layers` has a 1 for each layer *with* RoPE, in spite of its name."""

    layer_kinds: ClassVar[tuple[str, ...]] = (FULL, CHUNKED)

    head_dim: int | None = 128
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    rope_traditional: bool = True
    max_position_embeddings: int | None = 131072
    num_experts: int = 16
    num_experts_per_tok: int = 1
    intermediate_size_mlp: int = 16384
    moe_layers: list[int] | None = None
    interleave_moe_layer_step: int = 1
    no_rope_layers: list[int] | None = None
    no_rope_layer_interval: int = 4
    use_qk_norm: bool = True
    attention_chunk_size: int | None = 8192
    attn_temperature_tuning: bool = True
    floor_scale: int = 8192
    attn_scale: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.no_rope_layers and len(self.no_rope_layers) < self.num_hidden_layers:
            raise self.fail(
                "no_rope_layers",
                f"it names {len(self.no_rope_layers)} of {self.num_hidden_layers} layers",
            )

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(mlp="feed_forward"))

    def attention(self, layer: int) -> AttentionSpec:
        spec = replace(super().attention(layer), chunk=self.chunk(layer))
        if not self.has_rope(layer):
            tuned = TemperatureSpec(self.attn_scale, self.floor_scale, shift=1)
            return replace(spec, temperature=tuned if self.attn_temperature_tuning else None)
        norm = NormSpec(self.rms_norm_eps, weight=False) if self.use_qk_norm else None
        return replace(spec, qk_norm=norm, norm_rotated=True)

    def has_rope(self, layer: int) -> bool:
        if self.no_rope_layers:
            return bool(self.no_rope_layers[layer])
        return (layer + 1) % self.no_rope_layer_interval != 0

    def rope(self, layer: int) -> RopeSpec | None:
        return super().rope(layer) if self.has_rope(layer) else None

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return CHUNKED if self.has_rope(layer) else FULL

    def chunk(self, layer: int) -> int | None:
        size, longest = self.attention_chunk_size, self.max_position_embeddings
        if self.layer_type(layer) != CHUNKED or (size and longest and size >= longest):
            return None
        return size

    def has_experts(self, layer: int) -> bool:
        if self.moe_layers is not None:
            return layer in self.moe_layers
        return (layer + 1) % self.interleave_moe_layer_step == 0

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), intermediate_size=self.intermediate_size_mlp)

    def moe(self, layer: int) -> MoESpec:
        spec = super().moe(layer)
        return replace(
            spec,
            router=replace(spec.router, scoring="sigmoid", normalize=False),
            shared=self.shared(self.intermediate_size),
            scale_input=True,
            names=MoENames(gate="router", experts="experts", shared="shared_expert"),
        )


@dataclass(frozen=True, kw_only=True)
class Llama4Config(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"llama4_text": "llama4_text"}


TEXT = Architecture(
    "llama4_text",
    Llama4TextConfig,
    causal_lm,
    (
        Rename(r"output\.", "lm_head."),
        *COMMON_RULES,
        *split_experts("feed_forward.experts", "feed_forward.experts", transposed=True),
    ),
)
MULTIMODAL = Architecture("llama4", Llama4Config, nested, multimodal_rules())
