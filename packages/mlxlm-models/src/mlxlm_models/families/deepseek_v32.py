"""DeepSeek-V3.2 and GLM 5: latent attention to the tokens that an indexer chooses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import mlx.nn as nn

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import causal_lm
from mlxlm_models.families.deepseek_v2 import RULES
from mlxlm_models.families.deepseek_v3 import DeepSeekV3Config
from mlxlm_models.layers.block import BlockSpec, MixerSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.indexer import IndexerSpec
from mlxlm_models.layers.plan import linear_layers
from mlxlm_models.layers.sparse_mla import ChoosingBlockSpec, ChoosingDecoderSpec, SparseMLASpec


@dataclass(frozen=True, kw_only=True)
class DeepSeekV32Config(DeepSeekV3Config):
    layer_kinds: ClassVar[tuple[str, ...]] = ("indexed_attention", "full_attention")

    q_lora_rank: int = 1536  # of a latent that the indexer reads too
    index_n_heads: int = 64
    index_head_dim: int = 128
    index_topk: int = 2048
    index_traditional: ClassVar[bool] = False
    mlp_layer_types: list[str] | None = None

    def has_experts(self, layer: int) -> bool:
        kinds = self.mlp_layer_types
        return super().has_experts(layer) if kinds is None else kinds[layer] == "sparse"

    def mixer(self, layer: int) -> MixerSpec:
        latent = self.latent_attention(layer)
        return SparseMLASpec(**vars(latent), indexer=self.indexer(layer))

    def indexer(self, layer: int) -> IndexerSpec | None:
        rope = self.rope(layer)
        assert rope is not None
        return IndexerSpec(
            hidden_size=self.hidden_size,
            query_size=self.q_lora_rank,
            heads=self.index_n_heads,
            head_dim=self.index_head_dim,
            top_k=self.index_topk,
            # Its pairs of features are not those of attention.
            rope=replace(rope, traditional=self.index_traditional),
        )


@dataclass(frozen=True, kw_only=True)
class GlmMoeDsaConfig(DeepSeekV32Config):
    """Layers that `indexer_types` calls shared attend to what the one before chose.

    Without it, `index_topk_pattern` says the same with F and S, or one layer in
    `index_topk_freq` chooses, from `index_skip_topk_offset` on.
    """

    aliases: ClassVar[Mapping[str, str]] = DeepSeekV32Config.aliases
    index_traditional: ClassVar[bool] = True

    rms_norm_eps: float = 1e-5
    q_lora_rank: int = 2048
    qk_nope_head_dim: int = 192
    v_head_dim: int = 256
    n_group: int | None = 1
    topk_group: int | None = 1
    num_experts_per_tok: int = 8
    index_n_heads: int = 32
    indexer_types: list[str] | None = None
    index_topk_pattern: str | list[str] | None = None
    index_topk_freq: int = 1
    index_skip_topk_offset: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.kinds()
        if len(kinds) < self.num_hidden_layers or not {*kinds} <= {"full", "shared"}:
            raise self.fail(
                "indexer_types",
                f"it has to name full or shared for each of {self.num_hidden_layers} layers",
            )
        if kinds[0] == "shared":
            raise self.fail("indexer_types", "no layer comes before the first, which is shared")

    def kinds(self) -> list[str]:
        given = self.indexer_types or self.index_topk_pattern
        if given:
            return [{"F": "full", "S": "shared"}.get(kind, kind) for kind in given]
        every, first = max(self.index_topk_freq, 1), self.index_skip_topk_offset
        return [
            "shared" if max(layer - first + 1, 0) % every else "full"
            for layer in range(self.num_hidden_layers)
        ]

    def indexer(self, layer: int) -> IndexerSpec | None:
        return super().indexer(layer) if self.kinds()[layer] == "full" else None

    def decoder(self) -> DecoderSpec:
        spec = super().decoder()
        if "shared" not in self.kinds():
            return spec
        return ChoosingDecoderSpec(**vars(spec))

    def block(self, layer: int) -> BlockSpec:
        spec = super().block(layer)
        return ChoosingBlockSpec(**vars(spec)) if "shared" in self.kinds() else spec


def outside_indexers(model: nn.Module) -> list[str]:
    """Return what adapters attach to: a choice has no gradient that would reach an indexer."""
    return [path for path in linear_layers(model) if ".indexer." not in path]


ARCHITECTURE = Architecture(
    "deepseek_v32", DeepSeekV32Config, causal_lm, RULES, adapters=outside_indexers
)
GLM = Architecture("glm_moe_dsa", GlmMoeDsaConfig, causal_lm, RULES, adapters=outside_indexers)
