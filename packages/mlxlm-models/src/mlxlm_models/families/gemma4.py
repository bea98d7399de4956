"""Gemma 4, text: keys shared by late layers, an embedding per layer, experts in some sizes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.gemma import GemmaConfig
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import SANDWICH_NORM, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe_beside import MoEBesideBlockSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.per_layer import PerLayerBlockSpec, PerLayerDecoderSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.rope_settings import RopeSettings
from mlxlm_models.layers.shared_keys import SharedAttentionSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Weights, split_experts

DEFAULT_ROPE: Mapping[str, Any] = {
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
}


@dataclass(frozen=True, kw_only=True)
class SharedKeysConfig(GemmaConfig):
    """The last `num_kv_shared_layers` attend to what the last other layer of their type sees."""

    aliases: ClassVar[Mapping[str, str]] = {"hidden_activation": "hidden_act"}

    final_logit_softcapping: float | None = None
    num_kv_shared_layers: int = 0
    hidden_size_per_layer_input: int = 256
    vocab_size_per_layer_input: int = 262144

    def __post_init__(self) -> None:
        super().__post_init__()
        for layer in range(self.num_hidden_layers):
            self.source(layer)

    def source(self, layer: int) -> int | None:
        """Return the layer whose keys and values this one attends to; None for its own."""
        first = self.num_hidden_layers - self.num_kv_shared_layers
        if layer < first:
            return None
        kind = self.layer_type(layer)
        for earlier in range(first - 1, -1, -1):
            if self.layer_type(earlier) == kind:
                return earlier
        raise self.fail("num_kv_shared_layers", f"no layer before the last of them has {kind}")

    def decoder(self) -> DecoderSpec:
        plain = super().decoder()
        return PerLayerDecoderSpec(
            vocab_size=plain.vocab_size,
            hidden_size=plain.hidden_size,
            layers=plain.layers,
            norm=plain.norm,
            tied=plain.tied,
            embedding_scale=plain.embedding_scale,
            logit_soft_cap=self.final_logit_softcapping,
            sources=tuple(map(self.source, range(self.num_hidden_layers))),
            per_layer_size=self.hidden_size_per_layer_input,
            per_layer_vocab=self.vocab_size_per_layer_input,
            per_layer_norm=self.norm(),
        )

    def attention(self, layer: int) -> AttentionSpec:
        spec = replace(
            super().attention(layer),
            scale=1.0,
            qk_norm=self.norm(),
            value_norm=NormSpec(self.rms_norm_eps, weight=False),
        )
        if self.source(layer) is None:
            return spec
        return SharedAttentionSpec(**{name: getattr(spec, name) for name in vars(spec)})

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        return (self.rope_parameters or DEFAULT_ROPE)[layer_type]  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Gemma4TextConfig(SharedKeysConfig):
    """Full layers have heads of `global_head_dim`; of keys, their number may be another too."""

    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    global_head_dim: int = 512
    num_global_key_value_heads: int | None = None
    attention_k_eq_v: bool = False
    sliding_window: int | None = 512
    use_double_wide_mlp: bool = False
    use_bidirectional_attention: str | None = None
    enable_moe_block: bool = False
    num_experts: int | None = None
    top_k_experts: int | None = None
    moe_intermediate_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.use_bidirectional_attention == "all":
            raise self.fail("use_bidirectional_attention", "'all' is not a causal language model")

    def layer_type(self, layer: int) -> str:
        if layer == self.num_hidden_layers - 1:
            return FULL
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if (layer + 1) % 6 else FULL

    def block(self, layer: int) -> BlockSpec:
        spec = PerLayerBlockSpec(
            attention=self.mixer(layer),
            mlp=self.mlp(layer),
            norm=self.norm(),
            norms=SANDWICH_NORM,
            per_layer_size=self.hidden_size_per_layer_input,
            activation=self.activation("hidden_act"),
            scaled=True,
        )
        if not self.enable_moe_block:
            return spec
        for key in ("num_experts", "top_k_experts", "moe_intermediate_size"):
            if not getattr(self, key):
                raise self.fail(key, "enable_moe_block needs it")
        return MoEBesideBlockSpec(
            **{name: getattr(spec, name) for name in vars(spec)},
            experts=self.num_experts or 0,
            top_k=self.top_k_experts or 0,
            expert_size=self.moe_intermediate_size or 0,
        )

    def attention(self, layer: int) -> AttentionSpec:
        spec = super().attention(layer)
        if self.layer_type(layer) == SLIDING:
            return spec
        equal = self.attention_k_eq_v
        kv_heads = (equal and self.num_global_key_value_heads) or self.kv_heads
        return replace(spec, head_dim=self.global_head_dim, kv_heads=kv_heads, keys_as_values=equal)

    def dense(self, layer: int) -> MLPSpec:
        spec = super().dense(layer)
        wide = self.use_double_wide_mlp and self.source(layer) is not None
        return replace(spec, intermediate_size=spec.intermediate_size * (2 if wide else 1))

    def rope(self, layer: int) -> RopeSpec | None:
        kind = self.layer_type(layer)
        size = self.head_size if kind == SLIDING else self.global_head_dim
        return RopeSettings(
            self.rope_values(kind), size, self.max_position_embeddings, self.fail
        ).spec()


@dataclass(frozen=True, kw_only=True)
class Gemma4Config(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"gemma4_text": "gemma4_text"}


@dataclass(frozen=True, kw_only=True)
class Gemma4UnifiedConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"gemma4_unified_text": "gemma4_text"}
    defaults: ClassVar[Mapping[str, Any]] = {
        "hidden_size_per_layer_input": 0,
        "sliding_window": 1024,
    }


def drop_shared_keys(weights: Weights, config: SharedKeysConfig) -> Weights:
    """Remove the projections that layers with another's keys have in checkpoints, unused."""
    result: Weights = {}
    for name, value in weights.items():
        found = re.search(r"layers\.(\d+)\.self_attn\.[kv]_(?:proj|norm)\.", name)
        if found is None or config.source(int(found[1])) is None:
            result[name] = value
    return result


OTHER_SENSES = Drop(
    "*vision_embedder.*", "*embed_vision.*", "*audio_tower.*", "*embed_audio.*", "*audio_embedder.*"
)
TEXT = Architecture(
    "gemma4_text",
    Gemma4TextConfig,
    causal_lm,
    (*COMMON_RULES, drop_shared_keys, *split_experts("experts", "experts.switch_glu")),
)
MULTIMODAL = Architecture("gemma4", Gemma4Config, nested, (OTHER_SENSES, *multimodal_rules()))
UNIFIED = Architecture(
    "gemma4_unified", Gemma4UnifiedConfig, nested, (OTHER_SENSES, *multimodal_rules())
)
