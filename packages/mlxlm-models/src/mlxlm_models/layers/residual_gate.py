"""Blocks that weigh the stream and what each half adds to it, feature by feature (Muse)."""

from dataclasses import dataclass

import mlx.core as mx

from mlxlm_models.layers.block import BlockSpec, DecoderBlock
from mlxlm_models.layers.module import Module

_LEAST = 1e-3
"""Of the square of a stream's weight."""


@dataclass(frozen=True, kw_only=True)
class GatedBlockSpec(BlockSpec):
    """`temperature` divides the stored gates."""

    temperature: float

    def build(self) -> "GatedBlock":
        return GatedBlock(self)


class GatedBlock(DecoderBlock):
    """h = gate(x, after(attention(before(x)))); gate(h, after(mlp(before(h))))."""

    def __init__(self, spec: GatedBlockSpec) -> None:
        super().__init__(spec)
        hidden = spec.attention.hidden_size
        self.post_attention_residual_gate = ResidualGate(hidden, spec.temperature)
        self.post_feedforward_residual_gate = ResidualGate(hidden, spec.temperature)

    def closed(self, x: mx.array, read: mx.array, attended: mx.array) -> mx.array:
        attended = self._added(attended, self._after_attention)
        x = self["post_attention_residual_gate"](x, attended)
        h = self[self._before_mlp](x) if self._before_mlp else x
        h = self._added(self[self._mlp](h), self._after_mlp)
        return self["post_feedforward_residual_gate"](x, h)  # type: ignore[no-any-return]


class ResidualGate(Module):
    """a x + b h, with b = sigmoid(gate) and a² = 1 - b²: the variance of the stream stays."""

    def __init__(self, hidden_size: int, temperature: float) -> None:
        super().__init__()
        self.gate = mx.zeros((hidden_size,))
        self._temperature = temperature

    def __call__(self, x: mx.array, h: mx.array) -> mx.array:
        gate = self["gate"]
        if self.get("_summed") is not gate:
            # Kept between calls, and made again as soon as the gate is another array.
            self._summed = gate
            gate = gate.astype(mx.float32) / self._temperature
            self._added_share = mx.sigmoid(gate)
            # 1 - b² without the difference of near numbers.
            square = mx.sigmoid(-gate) * (1 + self["_added_share"])
            self._kept_share = mx.sqrt(mx.maximum(square, _LEAST))
        return (self["_kept_share"] * x + self["_added_share"] * h).astype(x.dtype)  # type: ignore[no-any-return]
