"""DBRX: a fused, bounded projection for attention, experts stored as one tall matrix each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.moe import MoENames, MoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.rules import COMMON_RULES, Rename, Reshape, Transpose, stack_experts


@dataclass(frozen=True, kw_only=True)
class DbrxConfig(MoEConfig):
    """Keys of attention and experts are nested under `attn_config` and `ffn_config`."""

    aliases: ClassVar[Mapping[str, str]] = {
        "d_model": "hidden_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "max_seq_len": "max_position_embeddings",
        "kv_n_heads": "num_key_value_heads",
        "ffn_hidden_size": "intermediate_size",
        "moe_num_experts": "num_experts",
        "moe_top_k": "num_experts_per_tok",
    }

    num_key_value_heads: int | None = 1
    intermediate_size: int = 3584
    num_experts: int = 4
    num_experts_per_tok: int = 1
    clip_qkv: float | None = None
    ffn_act_fn: dict[str, Any] | None = None
    moe_normalize_expert_weights: float | None = 1.0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        attention, experts = data.get("attn_config") or {}, data.get("ffn_config") or {}
        return super().from_dict({**data, **experts, **attention, "model_type": "dbrx"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.moe_normalize_expert_weights not in (None, 1.0):
            raise self.fail("moe_normalize_expert_weights", "only null and 1 are computed here")

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(
            decoder="transformer", embeddings="wte", layers="blocks", norm="norm_f"
        )
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="norm_1", before_mlp="norm_2"),
            names=BlockNames(attention="norm_attn_norm", attention_inner="attn", mlp="ffn"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        names = AttentionNames(qkv="Wqkv", o="out_proj")
        return replace(super().attention(layer), fused="rows", clip=self.clip_qkv, names=names)

    def moe(self, layer: int) -> MoESpec:
        spec = super().moe(layer)
        return replace(
            spec,
            router=replace(spec.router, normalize=self.moe_normalize_expert_weights is not None),
            activation=(self.ffn_act_fn or {}).get("name", "silu"),
            names=MoENames(gate="router", gate_inner="layer"),
        )

    def norm(self) -> NormSpec:
        return NormSpec(1e-5, kind="layer")


def _matrices(config: DbrxConfig) -> Sequence[int]:
    return config.num_experts, config.intermediate_size, config.hidden_size


_EXPERTS = "ffn.experts.mlp."
ARCHITECTURE = Architecture(
    "dbrx",
    DbrxConfig,
    causal_lm,
    (
        *COMMON_RULES,
        Rename(r"(.*)\.norm_attn_norm\.(norm_[12])\.", r"\1.\2."),
        *(Reshape(f"*{_EXPERTS}{name}", _matrices) for name in ("w1", "v1", "w2")),
        Transpose(f"*{_EXPERTS}w2"),
        Rename(r"(.*)\.ffn\.experts\.mlp\.w1$", r"\1.ffn.switch_mlp.gate_proj.weight"),
        Rename(r"(.*)\.ffn\.experts\.mlp\.v1$", r"\1.ffn.switch_mlp.up_proj.weight"),
        Rename(r"(.*)\.ffn\.experts\.mlp\.w2$", r"\1.ffn.switch_mlp.down_proj.weight"),
        # Converted ones have the experts apart.
        *stack_experts("ffn.experts", "ffn.switch_mlp", ("w1", "v1", "w2")),
    ),
)
