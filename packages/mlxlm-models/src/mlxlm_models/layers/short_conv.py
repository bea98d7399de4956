"""Causal depthwise convolutions over a few tokens, and what they remember of the last ones."""

import mlx.core as mx

from mlxlm_models.layers.module import Module


class ShortConv(Module):
    """x (B, L, channels) → the same: each channel's weighted sum over `kernel` tokens."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.weight = mx.zeros((channels, kernel, 1))

    def __call__(
        self, x: mx.array, state: mx.array | None, ends: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return the sums, and the state after x: the `kernel` - 1 tokens before the next.

        `state` is that before x, zeros unless given. `ends` (B,) tells how many of a row's
        tokens count, where padding follows them.
        """
        weight = self["weight"]
        kernel, (batch, length, channels) = weight.shape[1], x.shape
        if state is None:
            state = mx.zeros((batch, kernel - 1, channels), x.dtype)
        seen = mx.concatenate([state, x], axis=1)
        y = seen[:, :length] * weight[:, 0, 0]
        for i in range(1, kernel):
            y = y + seen[:, i : i + length] * weight[:, i, 0]
        if ends is None:
            return y, mx.contiguous(seen[:, length:])
        places = mx.minimum(ends, length)[:, None] + mx.arange(kernel - 1)
        return y, mx.take_along_axis(seen, places[..., None], axis=1)
