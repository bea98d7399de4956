"""Gemma 3, text: five windowed layers to a full one, each kind with its own RoPE."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.errors import ConfigError
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.gemma2 import Gemma2Config
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.nested import NestedCausalLM
from mlxlm_models.rules import COMMON_RULES, Drop, Rename


@dataclass(frozen=True, kw_only=True)
class Gemma3TextConfig(Gemma2Config):
    """The multimodal checkpoints leave out what has the value given here."""

    vocab_size: int = 262208
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    max_position_embeddings: int | None = 131072
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    rope_theta: float = 1000000.0
    rope_local_base_freq: float = 10000.0
    sliding_window_pattern: int = 6

    def attention(self, layer: int) -> AttentionSpec:
        # The scores of Gemma 3 are never capped, whatever the config says.
        return replace(super().attention(layer), qk_norm=self.norm(), soft_cap=None)

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if (layer + 1) % self.sliding_window_pattern else FULL

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = dict((self.rope_parameters or {}).get(layer_type) or {})
        if layer_type == FULL:
            return {"rope_theta": self.rope_theta} | values | (self.rope_scaling or {})
        return {"rope_theta": self.rope_local_base_freq} | values


@dataclass(frozen=True, kw_only=True)
class Gemma3Config(Gemma3TextConfig):
    """The multimodal config: the text part is nested under `text_config`."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        text = data.get("text_config")
        if not isinstance(text, Mapping):
            raise ConfigError(
                "The config of model_type 'gemma3' lacks 'text_config': add it to config.json, "
                "or set model_type to 'gemma3_text' if this is a text-only model."
            )
        return super().from_dict({**data, **text, "model_type": "gemma3"})


def nested(config: Gemma3Config) -> NestedCausalLM:
    return NestedCausalLM(causal_lm(config))


TEXT = Architecture("gemma3_text", Gemma3TextConfig, causal_lm)
MULTIMODAL = Architecture(
    "gemma3",
    Gemma3Config,
    nested,
    (
        Drop("*vision_tower.*", "*multi_modal_projector.*"),
        Rename(r"model\.language_model\.", "language_model.model."),
        Rename(r"lm_head\.", "language_model.lm_head."),
        *COMMON_RULES,
    ),
)
