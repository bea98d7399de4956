"""Mixture of experts: a router, experts, and often a shared expert that every token uses."""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.activations import GateSpec
from mlxlm_models.layers.mlp import MLPNames, MLPSpec
from mlxlm_models.layers.module import Held, Module
from mlxlm_models.layers.plan import Plan, Shard
from mlxlm_models.layers.router import RouterSpec, WideGate
from mlxlm_models.layers.switch import SwitchMLP


@dataclass(frozen=True)
class MoENames:
    """Names of the parts. `gate_inner`: the gate's own layer, where it is one further down."""

    gate: str = "gate"
    gate_inner: str | None = None
    experts: str = "switch_mlp"
    shared: str = "shared_experts"
    shared_gate: str = "shared_expert_gate"
    correction: str = "e_score_correction_bias"


@dataclass(frozen=True, kw_only=True)
class MoESpec:
    """Experts of `intermediate_size` each, gated MLPs unless not `gated`.

    `shared` sees every token; with `shared_gate`, by sigmoid of a projection of the token.
    `scale_input` weighs what a chosen expert reads instead of what it gives (Llama 4).
    """

    hidden_size: int
    intermediate_size: int
    router: RouterSpec
    activation: GateSpec
    bias: bool = False
    gated: bool = True
    shared: MLPSpec | None = None
    shared_gate: bool = False
    scale_input: bool = False
    names: MoENames = MoENames()
    expert_names: MLPNames = MLPNames()

    def plan(self) -> Plan:
        names, parts = self.names, self.expert_names
        inner = (parts.gate, parts.up) if self.gated else (parts.up,)
        shards = {f"{names.experts}.{name}": Shard("outputs") for name in inner}
        shards[f"{names.experts}.{parts.down}"] = Shard("inputs")
        plan = Plan(shards, summed=("",))
        if self.shared is None:
            return plan
        shared = self.shared.plan().under(names.shared)
        # Its sum is a part of the whole block's.
        return plan + Plan(shared.shards, shared.scale_groups)

    def readers(self) -> tuple[str, ...]:
        """Return the names of the layers that read the input."""
        names, parts = self.names, self.expert_names
        gate = f"{names.gate}.{names.gate_inner}" if names.gate_inner else names.gate
        inner = (parts.gate, parts.up) if self.gated else (parts.up,)
        own = (gate, *(f"{names.experts}.{name}" for name in inner))
        if self.shared is not None:
            own += tuple(f"{names.shared}.{name}" for name in self.shared.readers())
        return (*own, names.shared_gate) if self.shared_gate else own

    def build(self) -> "MoE":
        return MoE(self)


class MoE(Module):
    """x (B, L, hidden) → (B, L, hidden)."""

    def __init__(self, spec: MoESpec) -> None:
        super().__init__()
        self.spec = spec
        names, router = spec.names, spec.router
        self._names = names
        gate: nn.Module
        if router.wide:
            gate = WideGate(spec.hidden_size, router)
        else:
            gate = nn.Linear(spec.hidden_size, router.experts, bias=router.bias)
        if names.gate_inner is not None:
            gate = Held(names.gate_inner, gate)
        self[names.gate] = gate
        self._correction = router.correction
        if router.correction == "block":
            self[names.correction] = mx.zeros((router.experts,))
        self[names.experts] = SwitchMLP(
            router.experts,
            spec.hidden_size,
            spec.intermediate_size,
            spec.activation,
            bias=spec.bias,
            gated=spec.gated,
            names=spec.expert_names,
        )
        if spec.shared is not None:
            self[names.shared] = spec.shared.build()
        if spec.shared_gate:
            self[names.shared_gate] = nn.Linear(spec.hidden_size, 1, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        spec, names = self.spec, self._names
        chosen, weights = spec.router.choose(*self._logits(x))
        weights = weights.astype(x.dtype)
        if spec.scale_input:
            # Every choice is a token of its own, to one expert.
            batch, length, hidden = x.shape
            scaled = (x[..., None, :] * weights[..., None]).reshape(batch, -1, hidden)
            out = self[names.experts](scaled, chosen.reshape(batch, -1, 1))
            out = out.reshape(batch, length, -1, hidden).sum(axis=-2)
        else:
            out = self[names.experts](x, chosen)
            out = (weights[..., None, :] @ out).squeeze(-2)
        if spec.shared is not None:
            shared = self[names.shared](x)
            if spec.shared_gate:
                shared = shared * mx.sigmoid(self[names.shared_gate](x))
            out = out + shared
        return out  # type: ignore[no-any-return]

    def _logits(self, x: mx.array) -> tuple[mx.array, mx.array | None]:
        """Return the router's logits, and the correction of its choice."""
        gate = self[self._names.gate]
        if self._names.gate_inner is not None:
            gate = gate[self._names.gate_inner]
        if self._correction is None:
            return gate(x), None
        holder = gate if self._correction == "gate" else self
        name = "e_score_correction_bias" if holder is gate else self._names.correction
        return gate(x), holder[name]
