"""One linear map per head."""

import mlx.core as mx

from mlxlm_models.layers.module import Module


class MultiLinear(Module):
    """x (B, heads or 1, L, inputs) → (B, heads, L, outputs), each head by its own matrix."""

    def __init__(self, heads: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = mx.random.uniform(-bound, bound, (heads, outputs, inputs))

    def __call__(self, x: mx.array) -> mx.array:
        return x @ self["weight"].swapaxes(-1, -2)  # type: ignore[no-any-return]

    def transposed(self, x: mx.array) -> mx.array:
        """x (B, heads or 1, L, outputs) → (B, heads, L, inputs), by the same matrices."""
        return x @ self["weight"]  # type: ignore[no-any-return]

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        **_: object,
    ) -> "QuantizedMultiLinear":
        heads, outputs, inputs = self.weight.shape
        made = QuantizedMultiLinear(heads, inputs, outputs, group_size, bits, mode)
        made.weight, made.scales, *biases = mx.quantize(
            self.weight, group_size=group_size, bits=bits, mode=mode
        )
        made.biases = biases[0] if biases else None
        return made


class QuantizedMultiLinear(Module):
    """A `MultiLinear` with packed weights."""

    def __init__(
        self,
        heads: int,
        inputs: int,
        outputs: int,
        group_size: int | None,
        bits: int | None,
        mode: str,
    ) -> None:
        super().__init__()
        self.group_size, self.bits, self.mode = group_size, bits, mode
        empty = mx.zeros((heads, outputs, inputs))
        self.weight, self.scales, *biases = mx.quantize(
            empty, group_size=group_size, bits=bits, mode=mode
        )
        self.biases = biases[0] if biases else None
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        return self._product(x, transpose=True)

    def transposed(self, x: mx.array) -> mx.array:
        return self._product(x, transpose=False)

    def _product(self, x: mx.array, transpose: bool) -> mx.array:
        return mx.quantized_matmul(
            x,
            self["weight"],
            self["scales"],
            self.get("biases"),
            transpose=transpose,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )
