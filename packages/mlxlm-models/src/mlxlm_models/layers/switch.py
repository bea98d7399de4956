"""Expert layers: many weight matrices, of which each token uses a few."""

import mlx.core as mx
from mlxlm_cache.device import backend

from mlxlm_models.layers.activations import ACTIVATIONS, GateSpec, gate
from mlxlm_models.layers.mlp import MLPNames
from mlxlm_models.layers.module import Module

_NAMES = MLPNames()
SORT_FROM = 64
"""Rows from which on it pays to bring those of the same expert together."""


class SwitchLinear(Module):
    """Rows x (…, 1, inputs) times the matrix of the expert that `indices` (…) names."""

    def __init__(self, experts: int, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = mx.random.uniform(-bound, bound, (experts, outputs, inputs))
        self._biased = bias
        if bias:
            self.bias = mx.zeros((experts, outputs))

    def __call__(self, x: mx.array, indices: mx.array, ordered: bool = False) -> mx.array:
        """`ordered` tells that the indices, of one axis, are ascending."""
        weight = self["weight"]
        if weight.dtype != mx.float32 and backend() == "cpu":
            y = _narrow_on_cpu(x, weight, indices)
        else:
            y = mx.gather_mm(
                x, weight.swapaxes(-1, -2), rhs_indices=indices, sorted_indices=ordered
            )
        return y + self["bias"][indices][..., None, :] if self._biased else y

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        **_: object,
    ) -> "QuantizedSwitchLinear":
        return QuantizedSwitchLinear(self, group_size, bits, mode)

    def _extra_repr(self) -> str:
        experts, outputs, inputs = self.weight.shape
        return f"experts={experts}, inputs={inputs}, outputs={outputs}, bias={self._biased}"


def _narrow_on_cpu(x: mx.array, weight: mx.array, indices: mx.array) -> mx.array:
    """MLX's gathered product is float32 alone there: widen the experts used, or all."""
    if indices.size <= weight.shape[0]:
        return x @ weight[indices].swapaxes(-1, -2)
    wide = weight.astype(mx.float32).swapaxes(-1, -2)
    return mx.gather_mm(x.astype(mx.float32), wide, rhs_indices=indices).astype(x.dtype)


class QuantizedSwitchLinear(Module):
    """A `SwitchLinear` with packed weights, frozen as MLX's own quantized layers are."""

    def __init__(
        self, layer: SwitchLinear, group_size: int | None, bits: int | None, mode: str
    ) -> None:
        super().__init__()
        self.group_size, self.bits, self.mode = group_size, bits, mode
        self.weight, self.scales, *biases = mx.quantize(
            layer.weight, group_size=group_size, bits=bits, mode=mode
        )
        self.biases = biases[0] if biases else None
        self._biased = "bias" in layer
        if self._biased:
            self.bias = layer.bias
        self.freeze()

    def __call__(self, x: mx.array, indices: mx.array, ordered: bool = False) -> mx.array:
        y = mx.gather_qmm(
            x,
            self["weight"],
            self["scales"],
            self.get("biases"),
            rhs_indices=indices,
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
            sorted_indices=ordered,
        )
        return y + self["bias"][indices][..., None, :] if self._biased else y

    def _extra_repr(self) -> str:
        experts, outputs, _ = self.weight.shape
        return f"experts={experts}, outputs={outputs}, bits={self.bits}, mode={self.mode}"


class SwitchMLP(Module):
    """x (B, L, hidden), indices (B, L, k) → (B, L, k, hidden): each chosen expert's output."""

    def __init__(
        self,
        experts: int,
        hidden_size: int,
        intermediate_size: int,
        activation: GateSpec,
        *,
        bias: bool = False,
        gated: bool = True,
        names: MLPNames = _NAMES,
    ) -> None:
        super().__init__()
        self._names, self._gated = names, gated
        if gated:
            self._gate = gate(activation)
            self[names.gate] = SwitchLinear(experts, hidden_size, intermediate_size, bias)
        elif isinstance(activation, str):
            self._activation = ACTIVATIONS[activation]
        else:
            raise TypeError(f"{activation} needs a gate, which plain experts don't have")
        self[names.up] = SwitchLinear(experts, hidden_size, intermediate_size, bias)
        self[names.down] = SwitchLinear(experts, intermediate_size, hidden_size, bias)

    def __call__(self, x: mx.array, indices: mx.array) -> mx.array:
        rows = x.reshape(-1, 1, x.shape[-1])
        top_k = indices.shape[-1]
        if indices.size < SORT_FROM:
            out = self._experts(rows[:, None], indices.reshape(-1, top_k), ordered=False)
        else:
            flat = indices.flatten()
            order = mx.argsort(flat)
            out = self._experts(rows[order // top_k], flat[order], ordered=True)
            out = out[mx.argsort(order)]
        return out.reshape(*indices.shape, -1)

    def _experts(self, x: mx.array, indices: mx.array, ordered: bool) -> mx.array:
        names = self._names
        inner = self[names.up](x, indices, ordered)
        if self._gated:
            inner = self._gate(self[names.gate](x, indices, ordered), inner)
        else:
            inner = self._activation(inner)
        return self[names.down](inner, indices, ordered)  # type: ignore[no-any-return]
