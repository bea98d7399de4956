"""The text parts of Qwen 2, 2.5 and 3 VL."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested
from mlxlm_models.rules import Transpose, split_experts


@dataclass(frozen=True, kw_only=True)
class Qwen2VLConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2"}
    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 1000000.0}


@dataclass(frozen=True, kw_only=True)
class Qwen3VLConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"qwen3_vl_text": "qwen3"}
    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 500000.0}


@dataclass(frozen=True, kw_only=True)
class Qwen3VLMoeConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str]] = {"qwen3_vl_moe_text": "qwen3_moe"}
    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 500000.0}


QWEN2_VL = Architecture("qwen2_vl", Qwen2VLConfig, nested, multimodal_rules())
QWEN3_VL = Architecture("qwen3_vl", Qwen3VLConfig, nested, multimodal_rules())
QWEN3_VL_MOE = Architecture(
    "qwen3_vl_moe",
    Qwen3VLMoeConfig,
    nested,
    multimodal_rules(
        # Published as (experts, inputs, outputs); transformers 5 writes the outputs first.
        Transpose("*.mlp.experts.gate_up_proj", last=lambda config: config.text.hidden_size),
        Transpose("*.mlp.experts.down_proj", last=lambda config: config.text.expert_size),
        *split_experts("mlp.experts", "mlp.switch_mlp"),
    ),
)
