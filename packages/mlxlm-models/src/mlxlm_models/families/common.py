"""The keys that public decoder configs share, and the model they describe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mlxlm_models.config import ModelConfig
from mlxlm_models.layers.activations import ACTIVATIONS
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec, FeedForwardSpec, MixerSpec
from mlxlm_models.layers.decoder import CausalLM, DecoderSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.rope_settings import RopeSettings

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(ModelConfig):
    """Llama's keys and Llama's layout: families override the parts that differ.

    `layer` indices count from 0. `rope_parameters` is the newer spelling of `rope_theta`
    with `rope_scaling`; it may hold one mapping per layer type.
    """

    layer_kinds: ClassVar[tuple[str, ...]] = (FULL, SLIDING)

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int | None = None
    original_max_position_embeddings: int | None = None
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_traditional: bool = False
    partial_rotary_factor: float | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str] | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        for key in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "max_position_embeddings",
            "sliding_window",
        ):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise self.fail(key, f"{value} is not above zero")
        if self.num_attention_heads % self.kv_heads:
            raise self.fail(
                "num_key_value_heads",
                f"{self.num_attention_heads} heads cannot share {self.kv_heads} evenly",
            )
        self.check_heads()
        if self.layer_types is not None and len(self.layer_types) < self.num_hidden_layers:
            raise self.fail(
                "layer_types",
                f"it names {len(self.layer_types)} of {self.num_hidden_layers} layers",
            )
        for kind in self.layer_types or ():
            if kind not in self.layer_kinds:
                known = " nor ".join(self.layer_kinds)
                raise self.fail("layer_types", f"{kind!r} is neither {known}")

    def check_heads(self) -> None:
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise self.fail(
                "num_attention_heads",
                f"hidden_size {self.hidden_size} is not a multiple of {self.num_attention_heads}",
            )

    @property
    def kv_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def decoder(self) -> DecoderSpec:
        return DecoderSpec(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            layers=tuple(self.block(layer) for layer in range(self.num_hidden_layers)),
            norm=self.norm(),
            tied=self.tie_word_embeddings,
        )

    def block(self, layer: int) -> BlockSpec:
        return BlockSpec(attention=self.mixer(layer), mlp=self.mlp(layer), norm=self.norm())

    def mixer(self, layer: int) -> MixerSpec:
        return self.attention(layer)

    def attention(self, layer: int) -> AttentionSpec:
        return AttentionSpec(
            hidden_size=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_size,
            rope=self.rope(layer),
            window=self.window(layer),
            qkv_bias=self.attention_bias,
            out_bias=self.attention_bias,
        )

    def mlp(self, layer: int) -> FeedForwardSpec:
        return self.dense(layer)

    def dense(self, layer: int) -> MLPSpec:
        return MLPSpec(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            activation=self.activation("hidden_act"),
            bias=self.mlp_bias,
        )

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps)

    def activation(self, key: str) -> str:
        name: str = getattr(self, key)
        if name not in ACTIVATIONS:
            raise self.fail(key, f"{name!r} is none of {', '.join(sorted(ACTIVATIONS))}")
        return name

    def layer_type(self, layer: int) -> str:
        return self.layer_types[layer] if self.layer_types else FULL

    def window(self, layer: int) -> int | None:
        """Return how many tokens the layer sees; None for all.

        A window that the model's whole context fits in is none: its layers keep plain
        caches, which can be trimmed at any time.
        """
        if self.layer_type(layer) != SLIDING:
            return None
        if self.sliding_window is None:
            raise self.fail("sliding_window", f"layer_types has {SLIDING}, which needs it")
        longest = self.max_position_embeddings
        return None if longest and self.sliding_window >= longest else self.sliding_window

    def rope(self, layer: int) -> RopeSpec | None:
        settings = RopeSettings(
            self.rope_values(self.layer_type(layer)),
            self.head_size,
            self.max_position_embeddings,
            self.fail,
        )
        return settings.spec(self.rope_traditional)

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        """Return the flat RoPE settings of a layer type, the config's own keys filled in."""
        given = self.rope_scaling or self.rope_parameters or {}
        nested = any(isinstance(value, dict) for value in given.values())
        values = dict(given.get(layer_type) or {}) if nested else dict(given)
        if values.get("rope_theta") is None:
            values["rope_theta"] = self.rope_theta
        if self.partial_rotary_factor is not None:
            values.setdefault("partial_rotary_factor", self.partial_rotary_factor)
        if self.original_max_position_embeddings is not None:
            values["original_max_position_embeddings"] = self.original_max_position_embeddings
        return values


def causal_lm(config: DecoderConfig) -> CausalLM:
    return CausalLM(config.decoder())
