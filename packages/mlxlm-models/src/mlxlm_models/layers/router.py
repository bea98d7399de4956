"""Which experts each token goes to, and with what weight."""

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from mlxlm_models.layers.module import Module


@dataclass(frozen=True, kw_only=True)
class RouterSpec:
    """How scores of experts become a choice of `top_k` and their weights.

    `scoring` turns logits into scores. A learned `correction` takes part in the choice, not in
    the weights (DeepSeek-V3): it is stored beside the gate's weight, in the `router` that holds
    the gate, or in the `block`.
    With `groups`, only experts of the `kept_groups` best groups are candidates; a group is as
    good as its best expert, or as the sum of its best two. `normalize` makes the weights of
    the chosen sum to one, `scaling` multiplies them.

    `logit_scale` multiplies the logits; `wide` computes them in float32, by a gate that is
    never quantized.
    """

    experts: int
    top_k: int
    scoring: Literal["softmax", "sigmoid"] = "softmax"
    normalize: bool = True
    epsilon: float = 0.0
    scaling: float = 1.0
    groups: int = 1
    kept_groups: int = 1
    group_score: Literal["max", "top2"] = "top2"
    correction: Literal["gate", "router", "block"] | None = None
    logit_scale: float | None = None
    soft_cap: float | None = None
    bias: bool = False
    wide: bool = False

    def choose(
        self, logits: mx.array, correction: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return the indices and weights (…, top_k), float32, for logits (…, experts)."""
        logits = logits.astype(mx.float32)
        if self.logit_scale is not None:
            logits = logits * self.logit_scale
        if self.soft_cap is not None:
            logits = mx.tanh(logits / self.soft_cap) * self.soft_cap
        plain = correction is None and self.groups == 1
        if self.scoring == "softmax" and self.normalize and plain and not self.epsilon:
            # Softmax, then a share of the chosen: the softmax of the chosen.
            chosen = self._best(logits)
            weights = mx.softmax(mx.take_along_axis(logits, chosen, axis=-1), axis=-1)
            return chosen, self._scaled(weights)
        scores = mx.sigmoid(logits) if self.scoring == "sigmoid" else mx.softmax(logits, axis=-1)
        ranked = scores if correction is None else scores + correction.astype(mx.float32)
        if self.groups > 1:
            ranked = self._in_best_groups(ranked)
        chosen = self._best(ranked)
        weights = mx.take_along_axis(scores, chosen, axis=-1)
        if self.normalize and self.top_k > 1:
            weights = weights / (weights.sum(axis=-1, keepdims=True) + self.epsilon)
        return chosen, self._scaled(weights)

    def _best(self, ranked: mx.array) -> mx.array:
        if self.top_k == 1:
            return mx.argmax(ranked, axis=-1, keepdims=True)
        return mx.argpartition(-ranked, self.top_k - 1, axis=-1)[..., : self.top_k]

    def _scaled(self, weights: mx.array) -> mx.array:
        return weights if self.scaling == 1.0 else weights * self.scaling

    def _in_best_groups(self, ranked: mx.array) -> mx.array:
        grouped = mx.unflatten(ranked, -1, (self.groups, -1))
        if self.group_score == "max":
            worth = grouped.max(axis=-1)
        else:
            worth = mx.topk(grouped, 2, axis=-1).sum(axis=-1)
        dropped = self.groups - self.kept_groups
        if dropped:
            worst = mx.argpartition(worth, dropped - 1, axis=-1)[..., :dropped, None]
            grouped = mx.put_along_axis(grouped, worst, mx.array(-mx.inf), axis=-2)
        return grouped.flatten(-2)


class WideGate(Module):
    """x (…, hidden) → logits (…, experts), in float32 whatever the weights are."""

    whole = True
    """Never quantized, and unpacked where a checkpoint has it packed."""

    def __init__(self, hidden_size: int, spec: RouterSpec) -> None:
        super().__init__()
        self.weight = mx.zeros((spec.experts, hidden_size))
        self._biased = spec.bias
        if spec.bias:
            self.bias = mx.zeros((spec.experts,))
        if spec.correction == "gate":
            self.e_score_correction_bias = mx.zeros((spec.experts,))

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        if self.get("_widened") is not weight:
            # Kept between calls, and made again as soon as the weight is another array.
            self._widened = weight
            self._wide = weight.astype(mx.float32).T
        logits: mx.array = x.astype(mx.float32) @ self["_wide"]
        return logits + self["bias"].astype(mx.float32) if self._biased else logits
