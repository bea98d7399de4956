"""The text parts of Mistral Small 3, Ministral 3 and Pixtral, and of LLaVA."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested


@dataclass(frozen=True, kw_only=True)
class Mistral3Config(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"mistral": "mistral"}


@dataclass(frozen=True, kw_only=True)
class LlavaConfig(MultimodalConfig):
    """The first of them say of their text part only what isn't Llama 7B."""

    texts: ClassVar[Mapping[str, str]] = {"llama": "llama"}
    defaults: ClassVar[Mapping[str, Any]] = {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    }


ARCHITECTURE = Architecture("mistral3", Mistral3Config, nested, multimodal_rules())
LLAVA = Architecture("llava", LlavaConfig, nested, multimodal_rules())
