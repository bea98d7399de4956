"""Experts beside a dense layer, with a router of its own kind (Gemma 4)."""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.module import Held, Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.per_layer import PerLayerBlock, PerLayerBlockSpec
from mlxlm_models.layers.plan import Plan, Shard
from mlxlm_models.layers.switch import SwitchMLP


@dataclass(frozen=True, kw_only=True)
class MoEBesideBlockSpec(PerLayerBlockSpec):
    """A block of which experts and a dense layer both read the stream, each by its own norms."""

    experts: int
    top_k: int
    expert_size: int

    def plan(self) -> Plan:
        path = "experts.switch_glu"
        shards = {f"{path}.{name}": Shard("outputs") for name in ("gate_proj", "up_proj")}
        shards[f"{path}.down_proj"] = Shard("inputs")
        return super().plan() + Plan(shards, summed=("experts",))

    def build(self) -> "MoEBesideBlock":
        return MoEBesideBlock(self)


class MoEBesideBlock(PerLayerBlock):
    def __init__(self, spec: MoEBesideBlockSpec) -> None:
        super().__init__(spec)
        hidden = spec.attention.hidden_size
        self.router = ScaledRouter(spec.experts, spec.top_k, hidden, spec.norm.eps)
        experts = SwitchMLP(spec.experts, hidden, spec.expert_size, spec.activation)
        self.experts = Held("switch_glu", experts)
        self.post_feedforward_layernorm_1 = spec.norm.build(hidden)
        self.post_feedforward_layernorm_2 = spec.norm.build(hidden)
        self.pre_feedforward_layernorm_2 = spec.norm.build(hidden)

    def fed_forward(self, x: mx.array) -> mx.array:
        dense = self["post_feedforward_layernorm_1"](super().fed_forward(x))
        chosen, weights = self["router"](x)
        out = self["experts"](self["pre_feedforward_layernorm_2"](x), chosen)
        routed = (weights.astype(out.dtype)[..., None, :] @ out).squeeze(-2)
        return dense + self["post_feedforward_layernorm_2"](routed)  # type: ignore[no-any-return]


class ScaledRouter(Module):
    """x (…, hidden) → indices and weights (…, top_k); each expert's weight has a scale."""

    def __init__(self, experts: int, top_k: int, hidden: int, eps: float) -> None:
        super().__init__()
        self.proj = nn.Linear(hidden, experts, bias=False)
        self.scale = mx.ones((hidden,))
        self.per_expert_scale = mx.ones((experts,))
        self._norm = NormSpec(eps, weight=False).build(hidden)
        self._root, self._top_k = hidden**-0.5, top_k

    def __call__(self, x: mx.array) -> tuple[mx.array, mx.array]:
        logits = self["proj"](self._norm(x) * self["scale"] * self._root).astype(mx.float32)
        chosen = mx.argpartition(-logits, self._top_k - 1, axis=-1)[..., : self._top_k]
        # A share of the chosen's softmax is the softmax of the chosen.
        weights = mx.softmax(mx.take_along_axis(logits, chosen, axis=-1), axis=-1)
        return chosen, weights * self["per_expert_scale"][chosen]
