"""Activations by their names in public configs."""

import math
from collections.abc import Callable
from functools import cache

import mlx.core as mx
from mlxlm_cache.device import backend

Activation = Callable[[mx.array], mx.array]
Gate = Callable[[mx.array, mx.array], mx.array]


def silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


def gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x * math.sqrt(0.5))) * 0.5


def gelu_tanh(x: mx.array) -> mx.array:
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


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
    "relu": relu,
    "relu2": relu_squared,
}


@cache
def gate(name: str) -> Gate:
    """Return `activation(gate) * up` as one function of both. KeyError for an unknown name."""
    activation = ACTIVATIONS[name]
    return fused(lambda gate, up: activation(gate) * up)


def fused(function: Gate) -> Gate:
    """Fuse elementwise operations into one kernel where that pays.

    On CPU it doesn't: each new kernel costs a run of the C++ compiler.
    """
    if backend() == "cpu":
        return function
    return mx.compile(function, shapeless=True)
