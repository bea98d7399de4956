"""What a golden case is, and the parts that cases share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Config = dict[str, Any]
Source = Literal["transformers", "mlx-lm", "forward"]


@dataclass(frozen=True)
class Case:
    """What a golden is made of.

    `without` lists changes to the config that have to change the logits, which shows that
    the case exercises what it is named after. `source` is who makes it: what transformers
    lacks, our own `forward` in NumPy does, or mlx-lm. `shapes` are those of a public
    checkpoint, for mlx-lm. `known_as` is what transformers calls the type.

    `peer` are the keys that mlx-lm wants otherwise, to be compared with `forward`; None where
    it can't have the case. For that comparison, `beside` changes the case, `peer_repeats` is how
    often the text is repeated, `peer_steps` leaves single steps alone, and `peer_names` are parts
    of public names that are others in converted checkpoints, where it reads these alone.
    """

    config: Config
    without: list[Config] = field(default_factory=list)
    source: Source = "transformers"
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    known_as: str | None = None
    peer: Config | None = field(default_factory=dict)
    beside: Config = field(default_factory=dict)
    peer_repeats: int = 1
    peer_steps: bool = False
    peer_names: Mapping[str, str] = field(default_factory=dict)


def tiny(model_type: str, **changes: Any) -> Config:
    return {
        "model_type": model_type,
        "vocab_size": 48,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


def case(
    *without: Config, model_type: str, source: Source = "transformers", **changes: Any
) -> Case:
    return Case(tiny(model_type, **changes), list(without), source)


NO_SCALING = {"rope_scaling": None, "rope_parameters": None}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
VISION = {
    "model_type": "siglip_vision_model",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
