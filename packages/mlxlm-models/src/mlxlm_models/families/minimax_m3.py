"""MiniMax-M3: attention to chosen blocks of keys, and clipped experts; the text part alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, causal_lm
from mlxlm_models.families.minimax_m2 import ARCHITECTURE as M2
from mlxlm_models.families.minimax_m2 import MiniMaxM2Config
from mlxlm_models.families.multimodal import MultimodalConfig, multimodal_rules, nested
from mlxlm_models.layers.activations import ClippedSwiGLU
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, MixerSpec
from mlxlm_models.layers.block_sparse import BlockSparseAttentionSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.moe import MoESpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.rules import Drop

SPARSE = "minimax_m3_sparse"
_OLDER = {
    "sparse_num_index_heads": "index_n_heads",
    "sparse_index_dim": "index_head_dim",
    "sparse_block_size": "index_block_size",
    "sparse_topk_blocks": "index_topk_blocks",
    "sparse_local_block": "index_local_blocks",
}


@dataclass(frozen=True, kw_only=True)
class MiniMaxM3Config(MiniMaxM2Config):
    """`intermediate_size` is an expert's; lists say which layers choose and have experts."""

    layer_kinds: ClassVar[tuple[str, ...]] = (FULL, SPARSE)

    num_key_value_heads: int | None = 4
    rotary_dim: int | None = 64
    num_experts: int = 128
    num_experts_per_tok: int = 4
    routed_scaling_factor: float = 2.0
    dense_intermediate_size: int = 12288
    shared_intermediate_size: int = 3072
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0
    mlp_layer_types: list[str] | None = None
    index_n_heads: int = 4
    index_head_dim: int = 128
    index_block_size: int = 128
    index_topk_blocks: int = 16
    index_local_blocks: int = 1
    sparse_init_block: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the keys of `config.json`; ConfigError where they cannot be used."""
        values = dict(data)
        sparse = values.get("sparse_attention_config") or {}
        values |= {new: sparse[old] for old, new in _OLDER.items() if old in sparse}
        values.setdefault("sparse_init_block", sparse.get("sparse_init_block"))
        chosen, experts = sparse.get("sparse_attention_freq"), values.get("moe_layer_freq")
        if values.get("layer_types") is None and chosen is not None:
            values["layer_types"] = [SPARSE if each else FULL for each in chosen]
        if values.get("mlp_layer_types") is None and experts is not None:
            values["mlp_layer_types"] = ["sparse" if each else "dense" for each in experts]
        return super().from_dict(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        if SPARSE in (self.layer_types or ()) and self.index_n_heads != self.kv_heads:
            raise self.fail(
                "index_n_heads", f"{self.index_n_heads} heads choose for {self.kv_heads}"
            )
        if not 0 <= self.index_local_blocks <= self.index_topk_blocks:
            raise self.fail(
                "index_local_blocks", f"{self.index_local_blocks} of {self.index_topk_blocks}"
            )
        if self.sparse_init_block:
            raise self.fail("sparse_init_block", f"{self.sparse_init_block} is not 0")

    def block(self, layer: int) -> BlockSpec:
        spec = super().block(layer)
        return spec if self.has_experts(layer) else replace(spec, names=BlockNames())

    def mixer(self, layer: int) -> MixerSpec:
        attention = self.attention(layer)
        if self.layer_type(layer) != SPARSE:
            return attention
        return BlockSparseAttentionSpec(
            **vars(attention),
            index_dim=self.index_head_dim,
            index_norm=self.norm(),
            block_size=self.index_block_size,
            top_blocks=self.index_topk_blocks,
            local_blocks=self.index_local_blocks,
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(super().attention(layer), qk_norm_over="head")

    def has_experts(self, layer: int) -> bool:
        kinds = self.mlp_layer_types
        return kinds is None or kinds[layer] == "sparse"

    def dense(self, layer: int) -> MLPSpec:
        return self.shared(self.dense_intermediate_size)

    def moe(self, layer: int) -> MoESpec:
        return replace(
            super().moe(layer),
            activation=self.gate(),
            shared=self.shared(self.shared_intermediate_size),
        )

    def shared(self, intermediate_size: int) -> MLPSpec:
        return replace(super().shared(intermediate_size), activation=self.gate())

    def gate(self) -> ClippedSwiGLU:
        return ClippedSwiGLU(self.swiglu_limit, self.swiglu_alpha, shift=1.0)

    def activation(self, key: str) -> str:
        """Return what stands for `swigluoai`, which `gate` is."""
        return "silu"

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps, "rms_offset")


TEXT = Architecture("minimax_m3_vl_text", MiniMaxM3Config, causal_lm, (Drop("*mtp.*"), *M2.rules))


@dataclass(frozen=True, kw_only=True)
class MiniMaxM3VLConfig(MultimodalConfig):
    texts: ClassVar[Mapping[str, str | Architecture[Any]]] = {"minimax_m3_vl_text": TEXT}


ARCHITECTURE = Architecture(
    "minimax_m3_vl",
    MiniMaxM3VLConfig,
    nested,
    (Drop("*patch_merge_mlp.*"), *multimodal_rules()),
)
