"""GPT-Neo: GPT-2 with windows in every other layer, and scores that are not scaled."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.gpt2 import BUFFERS, GPT2Config
from mlxlm_models.layers.attention import AttentionNames, AttentionSpec
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.rules import COMMON_RULES, Drop, Rename


@dataclass(frozen=True, kw_only=True)
class GPTNeoConfig(GPT2Config):
    """`attention_types` has pairs of a pattern and how often it is repeated."""

    aliases: ClassVar[Mapping[str, str]] = {
        "num_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
        "window_size": "sliding_window",
        "activation_function": "hidden_act",
    }

    sliding_window: int | None = 256
    attention_types: list[Any] | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        hidden = data.get("hidden_size")
        if data.get("intermediate_size") is None and isinstance(hidden, int):
            data = {**data, "intermediate_size": 4 * hidden}
        return super().from_dict(data)

    def decoder(self) -> DecoderSpec:
        spec = super().decoder()
        return replace(spec, names=replace(spec.names, decoder="transformer"))

    def block(self, layer: int) -> BlockSpec:
        names = BlockNames(attention="attn", attention_inner="attention")
        return replace(super().block(layer), names=names)

    def attention(self, layer: int) -> AttentionSpec:
        return replace(
            super().attention(layer),
            scale=1.0,
            fused=None,
            qkv_bias=False,
            names=AttentionNames(o="out_proj"),
        )

    def layer_type(self, layer: int) -> str:
        pairs = self.attention_types or [[["global", "local"], self.num_hidden_layers]]
        kinds = [kind for pattern, times in pairs for kind in pattern * times]
        return SLIDING if kinds[layer] == "local" else FULL


ARCHITECTURE = Architecture(
    "gpt_neo",
    GPTNeoConfig,
    causal_lm,
    (
        BUFFERS,
        Drop("*.attn.attention.bias", "*.attn.attention.masked_bias"),
        Rename(r"(h|wte|wpe|ln_f)\.", r"transformer.\1."),
        *COMMON_RULES,
    ),
)
