"""MPT: ALiBi, layer norms without biases, fused rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.alibi import slopes
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec, NormNames
from mlxlm_models.layers.decoder import DecoderNames, DecoderSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec


@dataclass(frozen=True, kw_only=True)
class MptConfig(DecoderConfig):
    """`attn_config` is nested; learned positions are only there where it has no ALiBi."""

    aliases: ClassVar[Mapping[str, str]] = {
        "d_model": "hidden_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "max_seq_len": "max_position_embeddings",
    }

    hidden_act: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    expansion_ratio: int = 4
    attn_config: dict[str, Any] | None = None
    no_bias: bool = True
    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        hidden = data.get("d_model", data.get("hidden_size"))
        if isinstance(hidden, int):
            ratio = data.get("expansion_ratio", 4)
            data = {**data, "intermediate_size": ratio * hidden, "hidden_size": hidden}
        return super().from_dict(data)

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.attn_config or {}
        for key, wanted in (
            ("attn_type", "multihead_attention"),
            ("alibi", True),
            ("qk_ln", False),
            ("prefix_lm", False),
        ):
            if settings.get(key, wanted) != wanted:
                raise self.fail(f"attn_config.{key}", f"{settings[key]!r} is not supported")
        if not self.no_bias:
            raise self.fail("no_bias", "models with biases are not supported")

    def decoder(self) -> DecoderSpec:
        names = DecoderNames(
            decoder="transformer", embeddings="wte", layers="blocks", norm="norm_f"
        )
        return replace(super().decoder(), names=names)

    def block(self, layer: int) -> BlockSpec:
        return replace(
            super().block(layer),
            norms=NormNames(before_attention="norm_1", before_mlp="norm_2"),
            names=BlockNames(attention="attn", mlp="ffn"),
        )

    def attention(self, layer: int) -> AttentionSpec:
        settings = self.attn_config or {}
        steepest = float(settings.get("alibi_bias_max", 8))
        return replace(
            super().attention(layer),
            alibi=slopes(self.num_attention_heads, steepest),
            clip=settings.get("clip_qkv"),
            scale=settings.get("softmax_scale"),
            fused="rows",
            names=AttentionNames(qkv="Wqkv", o="out_proj"),
        )

    def dense(self, layer: int) -> MLPSpec:
        return replace(super().dense(layer), gated=False, names=MLPNames())

    def norm(self) -> NormSpec:
        return NormSpec(self.layer_norm_epsilon, kind="layer")

    def rope(self, layer: int) -> RopeSpec | None:
        return None


ARCHITECTURE = Architecture("mpt", MptConfig, causal_lm)
