"""The text parts of Kimi VL and Kimi K2.5: DeepSeek-V3."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested


@dataclass(frozen=True, kw_only=True)
class KimiVLConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"deepseek_v3": "deepseek_v3", "kimi_k2": "deepseek_v3"}


ARCHITECTURE = Architecture("kimi_k25", KimiVLConfig, nested, multimodal_rules())
