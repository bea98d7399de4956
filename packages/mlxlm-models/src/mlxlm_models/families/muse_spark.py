"""Muse Spark: Muse with gated residuals, normalised heads, and experts of fewer features."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.families.muse_glimmer import MUSE_RULES, MuseConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec
from mlxlm_models.layers.moe import MoENames
from mlxlm_models.layers.moe_pooled import PooledMoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.residual_gate import GatedBlockSpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import split_experts


@dataclass(frozen=True, kw_only=True)
class MuseSparkConfig(MuseConfig, MoEConfig):
    """`mlp_layer_types` says which layers have experts: all, unless given."""

    max_position_embeddings: int | None = 1048576
    qk_scale_factor: float = 5.4730064863875
    output_multiplier: float = 0.1767766952966369
    num_experts: int = 256
    num_experts_per_tok: int = 8
    moe_intermediate_size: int | None = 4096
    moe_hidden_size: int = 4096
    mlp_layer_types: list[str] | None = None
    residual_gate_temperature: float = 0.3

    def block(self, layer: int) -> BlockSpec:
        spec = replace(
            super().block(layer),
            attention_out_norm=NormSpec(self.post_norm_eps, weight=False),
            mlp_out_norm=self.input_norm(),
        )
        return GatedBlockSpec(**vars(spec), temperature=self.residual_gate_temperature)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), found_norm=self.plain_norm())

    def has_experts(self, layer: int) -> bool:
        kinds = self.mlp_layer_types
        return kinds is None or kinds[layer] == "sparse"

    def moe(self, layer: int) -> PooledMoESpec:
        spec = replace(super().moe(layer), names=MoENames(experts="experts"))
        return PooledMoESpec(
            **vars(spec),
            pooled_size=self.moe_hidden_size,
            pre_norm=NormSpec(self.rms_norm_eps, "rms_offset"),
            post_norm=self.input_norm(),
        )

    def router(self) -> RouterSpec:
        return replace(
            super().router(),
            scoring="sigmoid",
            logit_scale=self.output_multiplier,
            correction="gate",
            epsilon=1e-15,
            wide=True,
        )

    def input_norm(self) -> NormSpec:
        return NormSpec(self.post_norm_eps, "rms_input")


ARCHITECTURE = Architecture(
    "muse_spark",
    MuseSparkConfig,
    causal_lm,
    (*MUSE_RULES, *split_experts("mlp.experts", "mlp.experts")),
)
