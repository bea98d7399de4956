"""The text part of Mistral Small 3 and Ministral 3 with vision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested


@dataclass(frozen=True, kw_only=True)
class Mistral3Config(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"mistral": "mistral"}


ARCHITECTURE = Architecture("mistral3", Mistral3Config, nested, multimodal_rules())
