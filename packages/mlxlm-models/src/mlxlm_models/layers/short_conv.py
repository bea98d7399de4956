"""Causal depthwise convolutions over a few tokens, and what they remember of the last ones."""

from collections.abc import Sequence

import mlx.core as mx

from mlxlm_models.layers.module import Module


def convolve(
    x: mx.array,
    taps: Sequence[mx.array],
    state: mx.array | None,
    ends: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Return the weighted sums of x (B, L, …), and the state: the tokens that the next ones need.

    Of `taps`, the last weighs the token itself, those before it earlier ones. `state` is what
    was returned for what came before x, zeros unless given. `ends` (B,) tells how many of a
    row's tokens count, where padding follows them.
    """
    back, length = len(taps) - 1, x.shape[1]
    if state is None:
        state = mx.zeros((x.shape[0], back, *x.shape[2:]), x.dtype)
    seen = mx.concatenate([state, x], axis=1)
    y = seen[:, :length] * taps[0]
    for i in range(1, back + 1):
        y = y + seen[:, i : i + length] * taps[i]
    if ends is None:
        return y, mx.contiguous(seen[:, length:])
    places = mx.minimum(ends, length)[:, None] + mx.arange(back)
    places = places.reshape(*places.shape, *[1] * (x.ndim - 2))
    return y, mx.take_along_axis(seen, places, axis=1)


class ShortConv(Module):
    """x (B, L, channels) → the same: each channel's weighted sum over `kernel` tokens."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.weight = mx.zeros((channels, kernel, 1))

    def __call__(
        self, x: mx.array, state: mx.array | None, ends: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return the sums, and the state after x: see `convolve`."""
        weight = self["weight"]
        return convolve(x, [weight[:, i, 0] for i in range(weight.shape[1])], state, ends)
