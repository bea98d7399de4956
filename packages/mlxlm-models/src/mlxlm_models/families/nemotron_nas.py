"""Llama Nemotron 51B, Super and Ultra: Llama whose layers a search has thinned out (DeciLM)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.block import BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.partial_block import LinearHalf, PartialBlockSpec, PartialDecoderSpec
from mlxlm_models.layers.spec import recast
from mlxlm_models.rules import COMMON_RULES, Rename

_MULTIPLE = 256
_UNUSED = ("sparsify", "window_length", "num_sink_tokens")


@dataclass(frozen=True, kw_only=True)
class NemotronNASConfig(DecoderConfig):
    """`block_configs` has a mapping for `attention` and one for `ffn` of each layer.

    In either: `no_op`: there is no such half; `replace_with_linear`: it is one linear map. Else
    `n_heads_in_group` is how many queries share a key, and `ffn_mult`, or `intermediate_size`,
    is how wide the MLP is.
    """

    block_configs: list[dict[str, Any]]
    intermediate_size: int = 1  # each layer has its own
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.block_configs) != self.num_hidden_layers:
            raise self.fail(
                "block_configs",
                f"it has {len(self.block_configs)} of {self.num_hidden_layers} layers",
            )
        for layer in range(self.num_hidden_layers):
            for half in ("attention", "ffn"):
                for key in _UNUSED:
                    if self._half(layer, half).get(key):
                        raise self.fail(
                            "block_configs", f"layer {layer} has {key!r}, as no published model"
                        )

    def decoder(self) -> DecoderSpec:
        return recast(PartialDecoderSpec, super().decoder())

    def block(self, layer: int) -> BlockSpec:
        attention, ffn = self._half(layer, "attention"), self._half(layer, "ffn")
        linear = LinearHalf(self.hidden_size)
        plain = not attention.get("no_op") and not attention.get("replace_with_linear")
        return PartialBlockSpec(  # type: ignore[return-value]
            hidden_size=self.hidden_size,
            norm=self.norm(),
            attention=self.attention(layer) if plain else None,
            linear_attention=linear if attention.get("replace_with_linear") else None,
            mlp=None
            if ffn.get("no_op")
            else linear
            if ffn.get("replace_with_linear")
            else self.dense(layer),
        )

    def attention(self, layer: int) -> AttentionSpec:
        heads, group = (
            self.num_attention_heads,
            self._half(layer, "attention").get("n_heads_in_group"),
        )
        if not isinstance(group, int) or group <= 0 or heads % group:
            raise self.fail(
                "block_configs", f"layer {layer}: {heads} heads are no groups of {group!r}"
            )
        return replace(super().attention(layer), kv_heads=heads // group)

    def dense(self, layer: int) -> MLPSpec:
        ffn = self._half(layer, "ffn")
        inner = ffn.get("intermediate_size")
        if inner is None and ffn.get("ffn_mult") is not None:
            inner = int(2 * ffn["ffn_mult"] * self.hidden_size / 3)
            inner = -(-inner // _MULTIPLE) * _MULTIPLE
        if not isinstance(inner, int) or inner <= 0:
            raise self.fail("block_configs", f"layer {layer} doesn't say how wide its MLP is")
        return replace(super().dense(layer), intermediate_size=inner)

    def _half(self, layer: int, name: str) -> Mapping[str, Any]:
        half = self.block_configs[layer].get(name)
        if not isinstance(half, Mapping):
            raise self.fail("block_configs", f"layer {layer} has no {name!r}")
        return half


ARCHITECTURE = Architecture(
    "nemotron-nas",
    NemotronNASConfig,
    causal_lm,
    (
        *COMMON_RULES,
        Rename(r"(.*\.self_attn)\.linear_attn\.", r"\1.linear."),
        Rename(r"(.*\.mlp)\.linear_mlp\.", r"\1.linear."),
    ),
)
