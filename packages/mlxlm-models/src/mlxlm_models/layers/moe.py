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

    `shared` sees every token; with `shared_gate`, by sigmoid of a projection of the token,
    and with `blend`, by one part of a projection's softmax, the experts by the other (Klear).
    `scale_input` weighs what a chosen expert reads instead of what it gives (Llama 4).
    The last `identities` of the router's experts give what they read (LongCat-Flash).
    """

    hidden_size: int
    intermediate_size: int
    router: RouterSpec
    activation: GateSpec
    bias: bool = False
    gated: bool = True
    shared: MLPSpec | None = None
    shared_gate: bool = False
    blend: bool = False
    scale_input: bool = False
    identities: int = 0
    names: MoENames = MoENames()
    expert_names: MLPNames = MLPNames()

    @property
    def width(self) -> int:
        """How many features the experts read and give."""
        return self.hidden_size

    def plan(self) -> Plan:
        names, parts = self.names, self.expert_names
        inner = (parts.gate, parts.up) if self.gated else (parts.up,)
        shards = {f"{names.experts}.{name}": Shard("outputs") for name in inner}
        shards[f"{names.experts}.{parts.down}"] = Shard("inputs")
        # What identities give is whole already.
        plan = Plan(shards, summed=(names.experts if self.identities else "",))
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
        return (*own, names.shared_gate) if self.shared_gate or self.blend else own

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
        if router.correction in ("block", "router"):
            holder = self if router.correction == "block" else gate
            holder[names.correction] = mx.zeros((router.experts,))
        self._routed = router.experts - spec.identities
        self[names.experts] = SwitchMLP(
            self._routed,
            spec.width,
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
        elif spec.blend:
            self[names.shared_gate] = nn.Linear(spec.hidden_size, 2, bias=True)

    def __call__(self, x: mx.array) -> mx.array:
        spec, names = self.spec, self._names
        chosen, weights = spec.router.choose(*self._logits(x))
        weights = weights.astype(x.dtype)
        kept: mx.array | None = None
        if spec.identities:
            # The first expert works for nothing in their place: shapes don't depend on choices.
            routed = chosen < self._routed
            kept = mx.where(routed, 0, weights).sum(axis=-1, keepdims=True)
            chosen, weights = mx.where(routed, chosen, 0), mx.where(routed, weights, 0)
        if spec.scale_input:
            # Every choice is a token of its own, to one expert.
            batch, length, hidden = x.shape
            scaled = (x[..., None, :] * weights[..., None]).reshape(batch, -1, hidden)
            out = self[names.experts](scaled, chosen.reshape(batch, -1, 1))
            out = out.reshape(batch, length, -1, hidden).sum(axis=-2)
        else:
            out = self[names.experts](x, chosen)
            out = (weights[..., None, :] @ out).squeeze(-2)
        if kept is not None:
            out = out + kept * x
        if spec.shared is not None:
            shared = self[names.shared](x)
            if spec.shared_gate:
                shared = shared * mx.sigmoid(self[names.shared_gate](x))
            elif spec.blend:
                shares = mx.softmax(self[names.shared_gate](x), axis=-1, precise=True)
                out, shared = out * shares[..., :1], shared * shares[..., 1:]
            out = out + shared
        return out  # type: ignore[no-any-return]

    def _logits(self, x: mx.array) -> tuple[mx.array, mx.array | None]:
        """Return the router's logits, and the correction of its choice."""
        router = self[self._names.gate]
        inner = self._names.gate_inner
        gate = router if inner is None else router[inner]
        if self._correction is None:
            return gate(x), None
        if self._correction == "gate":
            return gate(x), gate["e_score_correction_bias"]
        holder = self if self._correction == "block" else router
        return gate(x), holder[self._names.correction]
