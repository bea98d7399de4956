"""Phi 3.5 MoE: layer norms, and two experts chosen one after the other (SparseMixer)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import FULL, SLIDING, causal_lm
from mlxlm_models.families.mixtral import RULES
from mlxlm_models.families.moe import MoEConfig
from mlxlm_models.layers.block import BlockNames, BlockSpec
from mlxlm_models.layers.decoder import DecoderSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.router import RouterSpec
from mlxlm_models.rules import Rename


@dataclass(frozen=True, kw_only=True)
class SparseMixer(RouterSpec):
    """Liu et al., 2023, at inference.

    Each choice is the best expert left. Its weight is its softmax share among the experts left
    whose logits are within `tolerance` of the best, relative to the larger of the two.
    """

    tolerance: float

    def choose(
        self, logits: mx.array, correction: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        logits = left = logits.astype(mx.float32)
        chosen, weights = [], []
        for _ in range(self.top_k):
            best = left.max(axis=-1, keepdims=True)
            far = (best - logits) / mx.maximum(mx.abs(logits), best) > self.tolerance
            shares = mx.softmax(mx.where(far, -mx.inf, left), axis=-1)
            index = mx.argmax(left, axis=-1, keepdims=True)
            chosen.append(index)
            weights.append(mx.take_along_axis(shares, index, axis=-1))
            left = mx.put_along_axis(left, index, mx.array(-mx.inf), axis=-1)
        return mx.concatenate(chosen, axis=-1), mx.concatenate(weights, axis=-1)


@dataclass(frozen=True, kw_only=True)
class PhiMoEConfig(MoEConfig):
    num_key_value_heads: int | None = 8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1000000.0
    max_position_embeddings: int | None = 131072
    num_experts: int = 16
    num_experts_per_tok: int = 2
    router_jitter_noise: float = 0.01
    lm_head_bias: bool = False

    def decoder(self) -> DecoderSpec:
        return replace(super().decoder(), head_bias=self.lm_head_bias)

    def block(self, layer: int) -> BlockSpec:
        return replace(super().block(layer), names=BlockNames(mlp="block_sparse_moe"))

    def norm(self) -> NormSpec:
        return NormSpec(self.rms_norm_eps, kind="layer", bias=True)

    def router(self) -> RouterSpec:
        return SparseMixer(
            experts=self.num_experts,
            top_k=self.num_experts_per_tok,
            tolerance=2 * self.router_jitter_noise,
        )

    def layer_type(self, layer: int) -> str:
        return FULL if self.sliding_window is None else SLIDING

    def rope_values(self, layer_type: str) -> Mapping[str, Any]:
        values = dict(super().rope_values(layer_type))
        short, long = values.get("short_mscale"), values.get("long_mscale")
        if short != long:
            raise self.fail("long_mscale", f"{long} is not the short one, {short}")
        return values if short is None else {**values, "attention_factor": short}


ARCHITECTURE = Architecture(
    "phimoe",
    PhiMoEConfig,
    causal_lm,
    (Rename(r"(.*)\.block_sparse_moe\.router\.", r"\1.block_sparse_moe.gate."), *RULES),
)
