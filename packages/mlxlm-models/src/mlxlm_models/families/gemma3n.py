"""Gemma 3n, text: alternating updates, an embedding per layer, keys shared by late layers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.gemma4 import OTHER_SENSES, SharedKeysConfig, drop_shared_keys
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested
from mlxlm_models.layers.altup import AltUpBlockSpec, AltUpDecoderSpec, SparseMLPSpec
from mlxlm_models.layers.block import SANDWICH_NORM, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.rules import COMMON_RULES


@dataclass(frozen=True, kw_only=True)
class Gemma3nTextConfig(SharedKeysConfig):
    """`intermediate_size` and `activation_sparsity_pattern` may have a number for each layer."""

    vocab_size: int = 262400
    intermediate_size: int | list[int] = 16384  # type: ignore[assignment]
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 2
    max_position_embeddings: int | None = 32768
    final_logit_softcapping: float | None = 30.0
    rope_theta: float = 1000000.0
    rope_local_base_freq: float = 10000.0
    sliding_window: int | None = 512
    num_kv_shared_layers: int = 15
    altup_num_inputs: int = 4
    altup_active_idx: int = 0
    altup_correct_scale: bool = True
    laurel_rank: int = 64
    activation_sparsity_pattern: float | list[float] | None = None

    def __post_init__(self) -> None:
        sizes = self.intermediate_size
        if isinstance(sizes, list):
            if len(sizes) < self.num_hidden_layers:
                raise self.fail("intermediate_size", f"it has {len(sizes)} layers' sizes")
            # What differs between layers is looked up by `dense`.
            object.__setattr__(self, "layer_sizes", tuple(sizes))
            object.__setattr__(self, "intermediate_size", sizes[0])
        super().__post_init__()

    def decoder(self) -> DecoderSpec:
        plain = super().decoder()
        return AltUpDecoderSpec(
            **{name: getattr(plain, name) for name in vars(plain)}, streams=self.altup_num_inputs
        )

    def block(self, layer: int) -> BlockSpec:
        return AltUpBlockSpec(
            attention=self.mixer(layer),
            mlp=self.mlp(layer),
            norm=self.norm(),
            norms=SANDWICH_NORM,
            per_layer_size=self.hidden_size_per_layer_input,
            activation=self.activation("hidden_act"),
            streams=self.altup_num_inputs,
            active=self.altup_active_idx,
            scale_corrected=self.altup_correct_scale,
            rank=self.laurel_rank,
        )

    def dense(self, layer: int) -> MLPSpec:
        spec = super().dense(layer)
        sizes = getattr(self, "layer_sizes", None)
        if sizes:
            spec = replace(spec, intermediate_size=sizes[layer])
        sparsity = self.sparsity(layer)
        if not sparsity:
            return spec
        values = {name: getattr(spec, name) for name in vars(spec)}
        return SparseMLPSpec(**values, sparsity=sparsity)

    def sparsity(self, layer: int) -> float:
        pattern = self.activation_sparsity_pattern
        if pattern is None:
            return 0.95 if self.num_hidden_layers > 10 and layer < 10 else 0.0
        return pattern[layer] if isinstance(pattern, list) else pattern

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if (layer + 1) % 5 else FULL

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = (self.rope_parameters or {}).get(layer_type) or {}
        if layer_type == FULL:
            return {"rope_theta": self.rope_theta} | values | (self.rope_scaling or {})
        return {"rope_theta": self.rope_local_base_freq} | values


@dataclass(frozen=True, kw_only=True)
class Gemma3nConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"gemma3n_text": "gemma3n_text"}


TEXT = Architecture("gemma3n_text", Gemma3nTextConfig, causal_lm, (*COMMON_RULES, drop_shared_keys))
MULTIMODAL = Architecture("gemma3n", Gemma3nConfig, nested, (OTHER_SENSES, *multimodal_rules()))
