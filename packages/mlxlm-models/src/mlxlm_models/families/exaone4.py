"""EXAONE 4: normalised outputs, and where it has windows, positions in those layers alone."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import POST_NORM, BlockSpec
from mlxlm_models.layers.rope import RopeSpec


@dataclass(frozen=True, kw_only=True)
class Exaone4Config(DecoderConfig):
    """`sliding_window_pattern` is every how many layers a full one comes, or as in "LLLG"."""

    rms_norm_eps: float = 1e-5
    sliding_window: int | None = 4096
    sliding_window_pattern: str | int | None = 4

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), norms=POST_NORM)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm=self.norm())

    def layer_type(self, layer: int) -> str:
        pattern = self.sliding_window_pattern
        if self.sliding_window is None or not pattern:
            return FULL
        if self.layer_types:
            return self.layer_types[layer]
        if isinstance(pattern, int):
            return SLIDING if (layer + 1) % pattern else FULL
        local = pattern[layer % len(pattern)] == "L" and layer + 1 < self.num_hidden_layers
        return SLIDING if local else FULL

    def rope(self, layer: int) -> RopeSpec | None:
        nowhere = self.sliding_window is not None and self.layer_type(layer) == FULL
        return None if nowhere else super().rope(layer)


ARCHITECTURE = Architecture("exaone4", Exaone4Config, causal_lm)
