"""OpenELM: Llama whose layers differ in heads and width."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec

_PER_LAYER = ("num_query_heads", "num_kv_heads", "ffn_multipliers")


@dataclass(frozen=True, kw_only=True)
class OpenELMConfig(DecoderConfig):
    aliases: ClassVar[Mapping[str, str]] = {
        "model_dim": "hidden_size",
        "num_transformer_layers": "num_hidden_layers",
        "activation_fn_name": "hidden_act",
        "rope_freq_constant": "rope_theta",
        "max_context_length": "max_position_embeddings",
        "share_input_output_layers": "tie_word_embeddings",
    }

    num_query_heads: list[int]
    num_kv_heads: list[int]
    ffn_multipliers: list[float]
    ffn_dim_divisor: int = 256
    ffn_with_glu: bool = True
    normalize_qk_projections: bool = True
    intermediate_size: int = 1  # each layer has its own
    num_attention_heads: int = 1  # and so here
    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        # What transformers writes for every config would win over this family's own keys.
        spelled = {cls.aliases[key] for key in data if key in cls.aliases}
        return super().from_dict({key: value for key, value in data.items() if key not in spelled})

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in _PER_LAYER:
            count = len(getattr(self, key))
            if count != self.num_hidden_layers:
                raise self.fail(key, f"it has {count} entries for {self.num_hidden_layers} layers")
        for heads, shared in zip(self.num_query_heads, self.num_kv_heads, strict=True):
            if shared <= 0 or heads % shared:
                raise self.fail("num_kv_heads", f"{heads} heads cannot share {shared} evenly")

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(decoder="transformer", embeddings="token_embeddings")
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="attn_norm", before_mlp="ffn_norm"),
            names=BlockNames(attention="attn", mlp="ffn"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            heads=self.num_query_heads[layer],
            kv_heads=self.num_kv_heads[layer],
            qk_norm=self.norm() if self.normalize_qk_projections else None,
            fused="rows",
            names=AttentionNames(o="out_proj"),
        )

    def dense(self, layer: int) -> MLPSpec:
        return replace(
            super().dense(layer),
            intermediate_size=self._inner(layer),
            gated=self.ffn_with_glu,
            fused=True,
            names=MLPNames(up="proj_1", gate_up="proj_1", down="proj_2"),
        )

    def _inner(self, layer: int) -> int:
        """Return the multiple of the divisor nearest to what is asked for, 90 % of it at least."""
        size, by = self.ffn_multipliers[layer] * self.hidden_size, self.ffn_dim_divisor
        inner = max(by, int(size + by / 2) // by * by)
        return inner + by if inner < 0.9 * size else inner


ARCHITECTURE = Architecture("openelm", OpenELMConfig, causal_lm)
