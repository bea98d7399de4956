"""Feed-forward layers."""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.activations import ACTIVATIONS, XIELU, GateSpec, gate
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup, Shard


@dataclass(frozen=True)
class MLPNames:
    """Names of the projections; `gate_up` is used where gate and up are stored as one."""

    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    gate_up: str = "gate_up_proj"
    inner_norm: str = "ffn_sub_norm"


@dataclass(frozen=True, kw_only=True)
class MLPSpec:
    """A gated MLP (Shazeer, 2020), or, not `gated`, one of two projections.

    `fused` stores gate and up as one, the gate's rows first unless `up_first`, or row by row
    where they are `interleaved`.
    `activation` may be `"xielu"` where it isn't gated. `down_bias` is `bias` unless given.
    `inner_norm` normalises what the last projection reads.
    """

    hidden_size: int
    intermediate_size: int
    activation: GateSpec
    bias: bool = False
    down_bias: bool | None = None
    fused: bool = False
    up_first: bool = False
    interleaved: bool = False
    gated: bool = True
    inner_norm: NormSpec | None = None
    names: MLPNames = MLPNames()

    def plan(self) -> Plan:
        names = self.names
        inner = self.intermediate_size
        if self.gated and self.fused:
            kinds = () if self.interleaved else (inner, inner)
            shards = {names.gate_up: Shard("outputs", kinds)}
        else:
            shards = {name: Shard("outputs") for name in self.readers()}
        # What is multiplied into the last projection's input comes from up, as it is.
        linear = self.gated and not self.fused and self.inner_norm is None
        linear = linear and isinstance(self.activation, str)
        groups = (ScaleGroup(names.up, (names.down,), names.down),) if linear else ()
        return Plan(shards | {names.down: Shard("inputs")}, groups)

    def readers(self) -> tuple[str, ...]:
        """Return the names of the layers that read the input."""
        names = self.names
        if not self.gated:
            return (names.up,)
        return (names.gate_up,) if self.fused else (names.gate, names.up)

    def build(self) -> nn.Module:
        if not self.gated:
            return MLP(self)
        return FusedGatedMLP(self) if self.fused else GatedMLP(self)


class _FeedForward(Module):
    """inner(x), normalised where the spec says so, through the last projection."""

    def __init__(self, spec: MLPSpec) -> None:
        super().__init__()
        self.spec = spec
        names = spec.names
        self._gate_name, self._up, self._down = names.gate, names.up, names.down
        self._gate_up = names.gate_up
        self._inner_norm = names.inner_norm if spec.inner_norm else None
        self._add_projections(spec)
        bias = spec.bias if spec.down_bias is None else spec.down_bias
        self[names.down] = nn.Linear(spec.intermediate_size, spec.hidden_size, bias=bias)
        if spec.inner_norm:
            self[names.inner_norm] = spec.inner_norm.build(spec.intermediate_size)

    def __call__(self, x: mx.array) -> mx.array:
        inner = self._inner(x)
        if self._inner_norm is not None:
            inner = self[self._inner_norm](inner)
        return self[self._down](inner)  # type: ignore[no-any-return]

    def _add_projections(self, spec: MLPSpec) -> None:
        raise NotImplementedError

    def _inner(self, x: mx.array) -> mx.array:
        raise NotImplementedError


class GatedMLP(_FeedForward):
    """down(activation(gate(x)) * up(x))."""

    def _add_projections(self, spec: MLPSpec) -> None:
        self._gate = gate(spec.activation)
        hidden, inner = spec.hidden_size, spec.intermediate_size
        self[spec.names.gate] = nn.Linear(hidden, inner, bias=spec.bias)
        self[spec.names.up] = nn.Linear(hidden, inner, bias=spec.bias)

    def _inner(self, x: mx.array) -> mx.array:
        return self._gate(self[self._gate_name](x), self[self._up](x))


class FusedGatedMLP(_FeedForward):
    """The same with one projection for both."""

    def _add_projections(self, spec: MLPSpec) -> None:
        self._gate = gate(spec.activation)
        self._up_first, self._interleaved = spec.up_first, spec.interleaved
        rows = 2 * spec.intermediate_size
        self[spec.names.gate_up] = nn.Linear(spec.hidden_size, rows, bias=spec.bias)

    def _inner(self, x: mx.array) -> mx.array:
        both = self[self._gate_up](x)
        if self._interleaved:
            first, second = both[..., ::2], both[..., 1::2]
        else:
            first, second = mx.split(both, 2, axis=-1)
        return self._gate(second, first) if self._up_first else self._gate(first, second)


class MLP(_FeedForward):
    """down(activation(up(x)))."""

    def _add_projections(self, spec: MLPSpec) -> None:
        self[spec.names.up] = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=spec.bias)
        self._learned = spec.activation == "xielu"
        if self._learned:
            self.act_fn = XIELU()
        elif isinstance(spec.activation, str):
            self._activation = ACTIVATIONS[spec.activation]
        else:
            raise TypeError(f"{spec.activation} needs a gate, which a plain MLP doesn't have")

    def _inner(self, x: mx.array) -> mx.array:
        x = self[self._up](x)
        return self["act_fn"](x) if self._learned else self._activation(x)
