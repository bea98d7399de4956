"""SmolLM 3: Llama with no positions (NoPE) in every fourth layer."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, DecoderConfig, causal_lm
from mlxlm_models.layers.rope import RopeSpec


@dataclass(frozen=True, kw_only=True)
class SmolLM3Config(DecoderConfig):
    """`no_rope_layers` has a 1 for each layer *with* RoPE, in spite of its name."""

    num_key_value_heads: int | None = 4
    rope_theta: float = 2000000.0
    no_rope_layers: list[int] | None = None
    no_rope_layer_interval: int = 4
    use_sliding_window: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.no_rope_layers is not None and len(self.no_rope_layers) < self.num_hidden_layers:
            raise self.fail(
                "no_rope_layers",
                f"it names {len(self.no_rope_layers)} of {self.num_hidden_layers} layers",
            )

    def rope(self, layer: int) -> RopeSpec | None:
        return super().rope(layer) if self.has_rope(layer) else None

    def has_rope(self, layer: int) -> bool:
        if self.no_rope_layers is not None:
            return bool(self.no_rope_layers[layer])
        return (layer + 1) % self.no_rope_layer_interval != 0

    def layer_type(self, layer: int) -> str:
        if not self.use_sliding_window or self.sliding_window is None:
            return FULL
        if self.layer_types:
            return self.layer_types[layer]
        return FULL if self.has_rope(layer) else SLIDING


ARCHITECTURE = Architecture("smollm3", SmolLM3Config, causal_lm)
