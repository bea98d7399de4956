"""What the forwards share: x is (L, features), a mask (L, L) is true where a query sees a key."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Weight = Callable[..., Array]
"""From a tensor's public name and its sizes to the tensor; the calls tell what a checkpoint has."""
Forward = Callable[[dict[str, Any], Weight, list[int]], Array]
"""From config, weights and tokens to logits (L, vocabulary)."""


def linear(weight: Weight, name: str, x: Array, outputs: int, bias: bool = False) -> Array:
    y = x @ weight(f"{name}.weight", outputs, x.shape[-1]).T
    return y + weight(f"{name}.bias", outputs) if bias else y


def plain_rms(x: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def rms_norm(weight: Weight, name: str, x: Array, eps: float, offset: float = 0.0) -> Array:
    return plain_rms(x, eps) * (offset + weight(f"{name}.weight", x.shape[-1]))


def layer_norm(weight: Weight, name: str, x: Array, eps: float) -> Array:
    x = x - x.mean(axis=-1, keepdims=True)
    size = x.shape[-1]
    return plain_rms(x, eps) * weight(f"{name}.weight", size) + weight(f"{name}.bias", size)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x: Array) -> Array:
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def heads(x: Array, count: int) -> Array:
    """Return (heads, L, head size)."""
    return x.reshape(len(x), count, -1).transpose(1, 0, 2)


def rotate(
    x: Array, base: float, dims: int | None = None, turn: float = 1.0, neighbours: bool = False
) -> Array:
    """Rotate the first `dims` features of each head, paired across their halves."""
    half = (dims or x.shape[-1]) // 2
    return rotate_by(x, turn * base ** (-np.arange(half) / half), neighbours)


def rotate_by(x: Array, frequencies: Array, neighbours: bool = False) -> Array:
    """Rotate as many pairs of features as there are frequencies."""
    half = len(frequencies)
    dims = 2 * half
    angles = np.arange(x.shape[1])[:, None] * frequencies
    cos, sin = np.cos(angles), np.sin(angles)
    first = slice(0, dims, 2) if neighbours else slice(0, half)
    second = slice(1, dims, 2) if neighbours else slice(half, dims)
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def causal(length: int, window: int | None = None) -> Array:
    back = np.arange(length)[:, None] - np.arange(length)
    return (back >= 0) & (back < (window or length))


def attend(q: Array, k: Array, v: Array, mask: Array, scale: float | None = None) -> Array:
    """Return (heads, L, value size): each key serves as many consecutive heads as it has to."""
    groups = len(q) // len(k)
    k, v = k.repeat(groups, axis=0), v.repeat(groups, axis=0)
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return softmax(np.where(mask, scores, -np.inf)) @ v


def joined(x: Array) -> Array:
    """Return (L, heads * head size)."""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def gated_mlp(
    weight: Weight,
    name: str,
    x: Array,
    inner: int,
    activation: Callable[[Array], Array] = silu,
    bias: bool = False,
) -> Array:
    gate = activation(linear(weight, f"{name}.gate_proj", x, inner, bias))
    up = linear(weight, f"{name}.up_proj", x, inner, bias)
    return linear(weight, f"{name}.down_proj", gate * up, x.shape[-1], bias)


def best(scores: Array, count: int) -> Array:
    """Return the indices of the largest scores, (L, count)."""
    return np.argsort(-scores, axis=-1)[:, :count]


def mixture(outputs: list[Array], chosen: Array, weights: Array) -> Array:
    """Return the sums of what the chosen gave; `outputs` are those of all experts, of all x."""
    given = np.stack(outputs, axis=1)
    return (np.take_along_axis(given, chosen[..., None], axis=1) * weights[..., None]).sum(axis=1)
