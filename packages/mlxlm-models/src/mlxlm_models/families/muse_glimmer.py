"""Muse Glimmer: gated attention of normalised heads, every fourth layer full and unrotated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import SANDWICH_NORM, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename, Rule


@dataclass(frozen=True, kw_only=True)
class MuseConfig(DecoderConfig):
    """The text part, nested under `text_config`.

    `layer_rope_theta` has a 0 for each layer without positions; the others share one base.
    The pattern of layers is counted from the last.
    """

    rms_norm_eps: float = 1e-5
    post_norm_eps: float = 1e-8
    rope_theta: float = 500000.0
    max_position_embeddings: int | None = 131072
    sliding_window: int | None = 2048
    qk_scale_factor: float = 3.87
    output_multiplier: float = 0.19611613513818404
    final_logit_softcapping: float = 20.0
    layer_rope_theta: list[float] | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read `text_config`, or the whole of a config of the text alone."""
        text = data.get("text_config") or data
        return super().from_dict({**text, "model_type": data.get("model_type", "?")})

    def __post_init__(self) -> None:
        super().__post_init__()
        bases = self.layer_rope_theta
        if bases is None:
            return
        if len(bases) < self.num_hidden_layers:
            raise self.fail(
                "layer_rope_theta", f"it has {len(bases)} of {self.num_hidden_layers} layers"
            )
        if others := set(bases) - {0, self.rope_values(FULL)["rope_theta"]}:
            raise self.fail("layer_rope_theta", f"{others.pop()} is neither 0 nor rope_theta")

    def decoder(self) -> DecoderSpec:
        return replace(
            super().decoder(),
            embedding_norm=self.plain_norm(),
            logit_scale=self.output_multiplier,
            logit_soft_cap=self.final_logit_softcapping,
        )

    def block(self, layer: int) -> BlockSpec:
        after = NormSpec(self.post_norm_eps, "rms_offset")
        return replace(
            super().block(layer),
            norm=NormSpec(self.rms_norm_eps, "rms_offset"),
            attention_out_norm=after,
            mlp_out_norm=after,
            norms=SANDWICH_NORM,
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            scale=self.qk_scale_factor * self.head_size**-0.5,
            qk_norm=self.plain_norm(),
            gate="features",
        )

    def plain_norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps, weight=False)

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return SLIDING if self._from_last(layer) % 4 else FULL

    def rope(self, layer: int) -> RopeSpec | None:
        bases = self.layer_rope_theta
        rotated = self._from_last(layer) % 4 if bases is None else bases[layer]
        return super().rope(layer) if rotated else None

    def _from_last(self, layer: int) -> int:
        return self.num_hidden_layers - 1 - layer


@dataclass(frozen=True, kw_only=True)
class MuseGlimmerConfig(MuseConfig):
    aliases: ClassVar[Mapping[str, str]] = {"hidden_activation": "hidden_act"}


MUSE_RULES: tuple[Rule, ...] = (
    Drop("*vision_tower.*", "*vision_adapter.*", "*vision_projection.*", "*audio_tower.*"),
    Rename(r"model\.language_model\.", "model."),
    *COMMON_RULES,
)
"""The text part alone, called as any decoder's."""

ARCHITECTURE = Architecture("muse_glimmer", MuseGlimmerConfig, causal_lm, MUSE_RULES)
