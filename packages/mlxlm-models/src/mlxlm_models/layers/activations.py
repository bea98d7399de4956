"""Activations by their names in public configs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mlx.core as mx
from mlxlm_cache import fast_exp, fast_exp_pays
from mlxlm_cache.device import backend

from mlxlm_models.layers.module import Module

FEW = 1 << 13  # for fewer numbers, starting the many operations of `fast_exp` takes too long

Activation = Callable[[mx.array], mx.array]
Gate = Callable[[mx.array, mx.array], mx.array]


def silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


def gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x * math.sqrt(0.5))) * 0.5


def gelu_tanh(x: mx.array) -> mx.array:
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def gelu_quick(x: mx.array) -> mx.array:
    return x * mx.sigmoid(1.702 * x)


def relu(x: mx.array) -> mx.array:
    return mx.maximum(x, 0)


def relu_squared(x: mx.array) -> mx.array:
    return mx.square(relu(x))


ACTIVATIONS: dict[str, Activation] = {
    "silu": silu,
    "swish": silu,
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "quick_gelu": gelu_quick,
    "relu": relu,
    "relu2": relu_squared,
    "sigmoid": mx.sigmoid,
}


def fast_silu(x: mx.array) -> mx.array:
    return x / (1 + _bounded_exp(-x))


def fast_gelu_tanh(x: mx.array) -> mx.array:
    return x / (1 + _bounded_exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x)))


def fast_tanh(x: mx.array) -> mx.array:
    """Differs from tanh by 1e-7 at most, also where that is small."""
    return 1 - 2 / (1 + _bounded_exp(2 * x))


def _bounded_exp(x: mx.array) -> mx.array:
    """Return a finite exp(x), as the gradients of quotients need it."""
    return fast_exp(mx.minimum(x, 88))


# What to use instead where `fast_exp_pays()`.
FAST: dict[Activation, Activation] = {
    silu: fast_silu,
    gelu_tanh: fast_gelu_tanh,
    mx.tanh: fast_tanh,
}


@dataclass(frozen=True)
class ClippedSwiGLU:
    """g * sigmoid(alpha * g) * (u + shift), g at most `limit` and u within ±`limit`."""

    limit: float
    alpha: float = 1.0
    shift: float = 0.0

    def __call__(self, gate: mx.array, up: mx.array) -> mx.array:
        gate = mx.minimum(gate, self.limit)
        up = mx.clip(up, -self.limit, self.limit)
        return gate * mx.sigmoid(self.alpha * gate) * (up + self.shift)


@dataclass(frozen=True)
class BoundedSwiGLU:
    """silu(g) * u, silu(g) at most `limit` and u within ±`limit` (Step 3.5)."""

    limit: float

    def __call__(self, gate: mx.array, up: mx.array) -> mx.array:
        return mx.minimum(silu(gate), self.limit) * mx.clip(up, -self.limit, self.limit)


GateSpec = str | ClippedSwiGLU | BoundedSwiGLU
"""An activation's name, for activation(gate) * up; or a gate of its own."""


@cache
def gate(spec: GateSpec) -> Gate:
    """Return the function of gate and up that `spec` means. KeyError for an unknown name."""
    if not isinstance(spec, str):
        return fused(spec)
    activation = with_fast_exp(ACTIVATIONS[spec])
    return fused(lambda gate, up: activation(gate) * up)


def with_fast_exp(activation: Activation) -> Activation:
    """Return what computes the same faster for many numbers, where there is such a function."""
    fast = FAST.get(activation)
    if fast is None or not fast_exp_pays():
        return activation
    return lambda x: activation(x) if x.size < FEW else fast(x)


def fused(function: Gate) -> Gate:
    """Fuse elementwise operations into one kernel where that pays.

    On CPU it doesn't: each new kernel costs a run of the C++ compiler.
    """
    if backend() == "cpu":
        return function
    return mx.compile(function, shapeless=True)


class XIELU(Module):
    """xIELU (Huang and Schlag, 2024): each side of zero with a learned strength."""

    def __init__(self, beta: float = 0.5, eps: float = -1e-6) -> None:
        super().__init__()
        self.alpha_p = mx.array([0.55])
        self.alpha_n = mx.array([0.55])
        self.beta = mx.array(beta)
        self.eps = mx.array(eps)

    def __call__(self, x: mx.array) -> mx.array:
        positive = _softplus(self["alpha_p"]).astype(x.dtype)
        beta, eps = self["beta"].astype(x.dtype), self["eps"].astype(x.dtype)
        negative = beta + _softplus(self["alpha_n"]).astype(x.dtype)
        linear = beta * x
        below = (mx.expm1(mx.minimum(x, eps)) - x) * negative + linear
        return mx.where(x > 0, positive * x * x + linear, below)


def _softplus(x: mx.array) -> mx.array:
    return mx.logaddexp(x.astype(mx.float32), 0)
