"""Mistral 4: DeepSeek's latent attention and groups, queries that grow with the position."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.deepseek_v2 import RULES
from mlxlm_models.families.mla import MLAConfig
from mlxlm_models.families.moe import GroupedMoEConfig
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.layers.temperature import TemperatureSpec
from mlxlm_models.rules import Rule, split_experts


@dataclass(frozen=True, kw_only=True)
class Mistral4Config(MLAConfig, GroupedMoEConfig):
    kv_lora_rank: int = 256
    q_lora_rank: int | None = 1024
    qk_nope_head_dim: int = 64
    num_experts: int = 128
    num_experts_per_tok: int = 4
    n_shared_experts: int | None = 1
    scoring_func: str = "softmax"

    def latent_attention(self, layer: int) -> MLASpec:
        values = self.rope_values(self.layer_type(layer))
        beta = values.get("llama_4_scaling_beta")
        length = values.get("original_max_position_embeddings")
        if not beta:
            return super().latent_attention(layer)
        if not length:
            raise self.fail("original_max_position_embeddings", "llama_4_scaling_beta needs it")
        temperature = TemperatureSpec(float(beta), int(length))
        return replace(super().latent_attention(layer), temperature=temperature)

    def router(self) -> RouterSpec:
        return replace(super().router(), correction=None, wide=False)


MISTRAL4_RULES: tuple[Rule, ...] = (*RULES, *split_experts("mlp.experts", "mlp.switch_mlp"))
ARCHITECTURE = Architecture("mistral4", Mistral4Config, causal_lm, MISTRAL4_RULES)
