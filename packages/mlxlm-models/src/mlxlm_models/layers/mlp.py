"""Feed-forward layers."""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.layers.activations import gate
from mlxlm_models.layers.module import Module


@dataclass(frozen=True, kw_only=True)
class MLPSpec:
    """A gated MLP (Shazeer, 2020); `fused` stores gate and up as one, `gate_up_proj`."""

    hidden_size: int
    intermediate_size: int
    activation: str
    bias: bool = False
    fused: bool = False

    def build(self) -> nn.Module:
        return FusedGatedMLP(self) if self.fused else GatedMLP(self)


class GatedMLP(Module):
    """down(activation(gate(x)) * up(x))."""

    def __init__(self, spec: MLPSpec) -> None:
        super().__init__()
        self._gate = gate(spec.activation)
        self.gate_proj = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=spec.bias)
        self.up_proj = nn.Linear(spec.hidden_size, spec.intermediate_size, bias=spec.bias)
        self.down_proj = nn.Linear(spec.intermediate_size, spec.hidden_size, bias=spec.bias)

    def __call__(self, x: mx.array) -> mx.array:
        inner = self._gate(self["gate_proj"](x), self["up_proj"](x))
        return self["down_proj"](inner)  # type: ignore[no-any-return]


class FusedGatedMLP(Module):
    """The same with one projection whose rows are the gate's, then up's."""

    def __init__(self, spec: MLPSpec) -> None:
        super().__init__()
        self._gate = gate(spec.activation)
        self.gate_up_proj = nn.Linear(spec.hidden_size, 2 * spec.intermediate_size, bias=spec.bias)
        self.down_proj = nn.Linear(spec.intermediate_size, spec.hidden_size, bias=spec.bias)

    def __call__(self, x: mx.array) -> mx.array:
        both = self["gate_up_proj"](x)
        gate_part, up_part = mx.split(both, 2, axis=-1)
        return self["down_proj"](self._gate(gate_part, up_part))  # type: ignore[no-any-return]
