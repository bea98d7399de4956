"""The keys of decoders that mix Kimi's delta attention with latent attention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mlxlm_models.families.common import FULL
from mlxlm_models.families.mla import MLAConfig
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.block import MixerSpec
from mlxlm_models.layers.delta_attention import DeltaAttentionSpec
from mlxlm_models.rules import Transpose

LINEAR = "linear_attention"


@dataclass(frozen=True, kw_only=True)
class DeltaConfig(MLAConfig, GroupedMoEConfig):
    """Kimi's spellings of DeepSeek's keys are known too."""

    layer_kinds: ClassVar[tuple[str, ...]] = (FULL, LINEAR)
    aliases: ClassVar[Mapping[str, str]] = {
        "num_local_experts": "num_experts",
        "n_routed_experts": "num_experts",
        "num_experts_per_token": "num_experts_per_tok",
        "num_shared_experts": "n_shared_experts",
        "num_expert_group": "n_group",
        "moe_renormalize": "norm_topk_prob",
        "moe_router_activation_func": "scoring_func",
        "score_function": "scoring_func",
        "model_max_length": "max_position_embeddings",
    }

    n_shared_experts: int | None = 1
    q_lora_rank: int | None = None
    mlp_layer_types: list[str] | None = None

    def mixer(self, layer: int) -> MixerSpec:
        if self.layer_type(layer) == LINEAR:
            return self.delta_attention()
        return self.latent_attention(layer)

    def delta_attention(self) -> DeltaAttentionSpec:
        raise NotImplementedError

    def has_experts(self, layer: int) -> bool:
        if self.mlp_layer_types:
            return self.mlp_layer_types[layer] == "sparse"
        return super().has_experts(layer)


CONVOLUTIONS = Transpose("*_conv1d.weight", last=lambda config: 1)
"""Public kernels are (channels, 1, tokens), converted ones (channels, tokens, 1)."""
