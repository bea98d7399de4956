"""Ling 3 (Bailing MoE): delta attention with a bounded decay, gated latent attention."""

from dataclasses import dataclass, replace

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, causal_lm
from mlxlm_models.families.delta import CONVOLUTIONS, LINEAR, DeltaConfig
from mlxlm_models.families.mla import split_key_value_heads
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.delta_attention import DeltaAttentionSpec
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename, drop_extra_layers, stack_experts


@dataclass(frozen=True, kw_only=True)
class BailingMoEV3Config(DeltaConfig):
    """The last layer of every `layer_group_size` is latent attention; `head_dim` is delta's."""

    head_dim: int | None = 128
    num_experts: int = 512
    num_experts_per_tok: int = 8
    moe_intermediate_size: int | None = 768
    moe_shared_expert_intermediate_size: int | None = None
    n_group: int | None = 8
    topk_group: int | None = 4
    routed_scaling_factor: float = 2.5
    first_k_dense_replace: int = 2
    rope_theta: float = 6000000.0
    layer_group_size: int = 6
    short_conv_kernel_size: int = 4
    kda_safe_gate: bool = True
    kda_lower_bound: float = -5.0
    no_kda_lora: bool = True
    group_norm_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_norm_size is not None:
            raise self.fail("group_norm_size", "it is of Ling 2.5, another architecture")
        own, shared = self.moe_intermediate_size, self.moe_shared_expert_intermediate_size
        if shared not in (None, own):
            raise self.fail("moe_shared_expert_intermediate_size", f"{shared} is not {own}")

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), names=DecoderNames(embeddings="word_embeddings"))

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(attention="attention"))

    def layer_type(self, layer: int) -> str:
        if self.layer_types:
            return self.layer_types[layer]
        return LINEAR if (layer + 1) % self.layer_group_size else FULL

    def delta_attention(self) -> DeltaAttentionSpec:
        return DeltaAttentionSpec(
            hidden_size=self.hidden_size,
            heads=self.num_attention_heads,
            head_dim=self.head_dim or 128,
            kernel=self.short_conv_kernel_size,
            norm=self.norm(),
            low_rank=not self.no_kda_lora,
            lower_bound=self.kda_lower_bound if self.kda_safe_gate else None,
        )

    def latent_attention(self, layer: int) -> MLASpec:
        return replace(super().latent_attention(layer), head_gate=True)


ARCHITECTURE = Architecture(
    "bailing_moe_v3",
    BailingMoEV3Config,
    causal_lm,
    (
        Drop("model.mtp.*"),
        *COMMON_RULES,
        drop_extra_layers,
        Rename(r"(.*\.mlp\.gate)\.expert_bias$", r"\1.e_score_correction_bias"),
        Rename(r"(.*\.attention)\.dense\.", r"\1.o_proj."),
        CONVOLUTIONS,
        *stack_experts("mlp.experts", "mlp.switch_mlp"),
        split_key_value_heads,
    ),
)
