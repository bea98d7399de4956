"""Granite: Llama with multipliers for embeddings, residuals, scores and logits."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.mlp import MLPNames
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.rules import COMMON_RULES, Rename, Rule, Split


@dataclass(frozen=True, kw_only=True)
class GraniteConfig(DecoderConfig):
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0
    logits_scaling: float = 1.0

    def decoder(self) -> DecoderSpec:
        return replace(
            super().decoder(),
            embedding_scale=self.embedding_multiplier,
            logit_scale=1 / self.logits_scaling,
        )

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), residual_scale=self.residual_multiplier)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), scale=self.attention_multiplier)


@dataclass(frozen=True, kw_only=True)
class GraniteMoeConfig(GraniteConfig, MoEConfig):
    num_experts: int = 8
    num_experts_per_tok: int = 2

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(mlp="block_sparse_moe"))

    def moe(self, layer: int) -> MoESpec:
        return replace(super().moe(layer), names=MoENames(gate="router", gate_inner="layer"))


@dataclass(frozen=True, kw_only=True)
class GraniteMoeSharedConfig(GraniteMoeConfig):
    shared_intermediate_size: int = 0

    def moe(self, layer: int) -> MoESpec:
        spec, size = super().moe(layer), self.shared_intermediate_size
        if not size:
            return spec
        names = MLPNames(gate_up="input_linear", down="output_linear")
        shared = replace(self.shared(size), fused=True, names=names)
        return replace(spec, shared=shared, names=replace(spec.names, shared="shared_mlp"))


RULES: tuple[Rule, ...] = (
    *COMMON_RULES,
    # The published ones have the shared expert beside the others.
    Rename(r"(.*layers\.\d+)\.shared_mlp\.", r"\1.block_sparse_moe.shared_mlp."),
    Rename(r"(.*)\.block_sparse_moe\.input_linear", r"\1.block_sparse_moe.switch_mlp.gate_up"),
    Rename(r"(.*)\.block_sparse_moe\.output_linear", r"\1.block_sparse_moe.switch_mlp.down_proj"),
    Split("*.switch_mlp.gate_up", ("gate_proj", "up_proj"), axis=1),
)
GRANITE = Architecture("granite", GraniteConfig, causal_lm)
GRANITE_MOE = Architecture("granitemoe", GraniteMoeConfig, causal_lm, RULES)
GRANITE_MOE_SHARED = Architecture("granitemoeshared", GraniteMoeSharedConfig, causal_lm, RULES)
