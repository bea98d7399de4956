"""The keys of multi-head latent attention, the layer they describe, and its weights."""

import math
import re
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxlm_models.families.common import DecoderConfig
from mlxlm_models.layers.block import MixerSpec
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.rules import Weights


@dataclass(frozen=True, kw_only=True)
class MLAConfig(DecoderConfig):
    """Rotated features are stored in pairs, unless `rope_interleave` says otherwise."""

    kv_lora_rank: int = 512
    q_lora_rank: int | None = 1536
    qk_rope_head_dim: int = 64
    qk_nope_head_dim: int = 128
    v_head_dim: int = 128
    rope_interleave: bool = True
    rope_traditional: bool = True

    def check_heads(self) -> None:
        """The sizes of heads are given, whatever the hidden size is."""

    @property
    def head_size(self) -> int:
        """Return how many features of a head are rotated."""
        return self.qk_rope_head_dim

    def mixer(self, layer: int) -> MixerSpec:
        return self.latent_attention(layer)

    def latent_attention(self, layer: int) -> MLASpec:
        return MLASpec(
            hidden_size=self.hidden_size,
            heads=self.num_attention_heads,
            kv_lora_rank=self.kv_lora_rank,
            q_lora_rank=self.q_lora_rank,
            nope_dim=self.qk_nope_head_dim,
            rope_dim=self.qk_rope_head_dim,
            value_dim=self.v_head_dim,
            rope=self.rope(layer),
            norm=NormSpec(1e-6),
            scale=self.score_scale(layer),
            bias=self.attention_bias,
        )

    def score_scale(self, layer: int) -> float:
        """Return 1 / sqrt(head size), sharpened as YaRN's `mscale_all_dim` says."""
        scale: float = (self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5
        values = self.rope_values(self.layer_type(layer))
        strength = values.get("mscale_all_dim")
        if not strength or values.get("rope_type", values.get("type")) in (None, "default"):
            return scale
        factor = float(values["factor"])
        sharper = 0.1 * float(strength) * math.log(factor) + 1.0 if factor > 1 else 1.0
        return scale * sharper * sharper


def split_key_value_heads(weights: Weights, config: MLAConfig) -> Weights:
    """Cut each `kv_b_proj` into `embed_q` (heads, latent, nope) and `unembed_out`.

    A packed one gives a packed `unembed_out` (heads, value, latent), whose rows are whole;
    `embed_q` has the other axis last, and stays unpacked.
    """
    result: Weights = {}
    packed: dict[str, Weights] = {}
    for name, value in weights.items():
        found = re.fullmatch(r"(.*)\.kv_b_proj\.(weight|scales|biases)", name)
        if found is None:
            result[name] = value
        else:
            packed.setdefault(found[1], {})[found[2]] = value
    for prefix, parts in packed.items():
        nope = config.qk_nope_head_dim
        heads = {
            tensor: mx.unflatten(value, 0, (config.num_attention_heads, nope + config.v_head_dim))
            for tensor, value in parts.items()
        }
        keys = _unpacked({k: v[:, :nope] for k, v in heads.items()}, config.kv_lora_rank)
        result[f"{prefix}.embed_q.weight"] = keys.swapaxes(-1, -2)
        for tensor, value in heads.items():
            result[f"{prefix}.unembed_out.{tensor}"] = value[:, nope:]
    return result


def _unpacked(parts: Weights, inputs: int) -> mx.array:
    """Return weights (…, inputs) of MLX's affine mode, whose settings their shapes tell."""
    if "scales" not in parts:
        return parts["weight"]
    words, groups = parts["weight"].shape[-1], parts["scales"].shape[-1]
    settings: Any = {"group_size": inputs // groups, "bits": words * 32 // inputs}
    return mx.dequantize(parts["weight"], parts["scales"], parts["biases"], **settings)
