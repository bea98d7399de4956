"""How linear layers compute: which product, by device, number of rows and kind of weights.

Rows are all tokens of all sequences together. What pays was measured:

- CPU, packed weights: MLX's packed product for up to `CPU_ROWS` rows; for more they are
  dequantized to float32 and multiplied in the BLAS.
- CUDA, 4-bit weights: our kernel for up to 32 rows; for more they are dequantized and
  multiplied. Other packed weights: MLX's packed product for `CUDA_ROWS` row, because MLX reads
  the weights again for each sequence of a batch; else dequantized. 16-bit weights: our kernel
  for 2 to 8 rows, else MLX's product.
- CUDA, few rows: layers that read the same input are computed as one.
- Metal: what MLX does. Layers stay as they are.
"""

from collections.abc import Iterator
from typing import Self, TypeVar

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlxlm_cache.device import Backend, backend

from mlxlm_models.dequantize import dequantize_float32
from mlxlm_models.kernels import few_rows
from mlxlm_models.layers.siblings import Joinable, join_siblings
from mlxlm_models.tree import modules_of

L = TypeVar("L", bound=nn.Module)

CPU_ROWS = 6
"""The packed product takes 1.0 to 1.3 ns a weight and row, dequantizing 4.5 ns a weight."""

CUDA_ROWS = 1
"""MLX's packed product has to be compiled for several rows, half a minute for each kind of
weights and range of rows (up to 16, 32, 64)."""


def choose_products(model: nn.Module) -> None:
    """Replace layers of `model` by those that choose their product, on CPU and CUDA.

    They keep their paths, names and arrays.
    """
    device = backend()
    if device == "metal":
        return
    found = list(_replacements(model, device))
    if found:
        model.update_modules(tree_unflatten(found))
    if device == "cuda":
        join_siblings(model)


def _replacements(model: nn.Module, device: Backend) -> Iterator[tuple[str, nn.Module]]:
    for path, module in modules_of(model).items():
        if isinstance(module, nn.QuantizedEmbedding):
            yield path, PackedEmbedding.from_quantized(module)
        elif isinstance(module, nn.QuantizedLinear):
            yield path, PackedLinear.from_quantized(module)
        elif type(module) is nn.Linear and device == "cuda":
            yield path, DenseLinear.from_linear(module)
        elif type(module) is nn.Embedding and device == "cuda":
            yield path, DenseEmbedding.from_embedding(module)


class PackedLinear(Joinable, nn.QuantizedLinear):
    """A quantized linear layer that chooses its product."""

    @classmethod
    def from_quantized(cls, layer: nn.QuantizedLinear) -> Self:
        return _taking_over(cls.__new__(cls), layer)

    def alike(self) -> "PackedLinear":
        return PackedLinear.from_quantized(self)

    def __call__(self, x: mx.array) -> mx.array:
        if (y := self.joined(x)) is not None:
            return y
        if self.training:  # our kernels have no gradient
            return super().__call__(x)  # type: ignore[no-any-return, no-untyped-call]
        y = packed_product(x, self)
        return y + self["bias"] if "bias" in self else y


class PackedEmbedding(nn.QuantizedEmbedding):
    """A quantized embedding that chooses the product of its `as_linear`."""

    @classmethod
    def from_quantized(cls, layer: nn.QuantizedEmbedding) -> Self:
        return _taking_over(cls.__new__(cls), layer)

    def __call__(self, tokens: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][tokens],
            self["scales"][tokens],
            None if biases is None else biases[tokens],
            self.group_size,
            self.bits,
            mode=self.mode,
            dtype=mx.float32 if backend() == "cpu" else None,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        if self.training:
            return super().as_linear(x)  # type: ignore[no-any-return, no-untyped-call]
        return packed_product(x, self)


class DenseLinear(Joinable, nn.Linear):
    """A linear layer that chooses its product."""

    @classmethod
    def from_linear(cls, layer: nn.Linear) -> Self:
        return _taking_over(cls.__new__(cls), layer)

    def alike(self) -> "DenseLinear":
        return DenseLinear.from_linear(self)

    def __call__(self, x: mx.array) -> mx.array:
        if (y := self.joined(x)) is not None:
            return y
        if self.training:  # our kernel has no gradient
            return super().__call__(x)
        y = dense_product(x, self["weight"])
        return y + self["bias"] if "bias" in self else y


class DenseEmbedding(nn.Embedding):
    """An embedding that chooses the product of its `as_linear`."""

    @classmethod
    def from_embedding(cls, layer: nn.Embedding) -> Self:
        return _taking_over(cls.__new__(cls), layer)

    def as_linear(self, x: mx.array) -> mx.array:
        if self.training:
            return super().as_linear(x)  # type: ignore[no-any-return, no-untyped-call]
        return dense_product(x, self["weight"])


def dense_product(x: mx.array, weight: mx.array) -> mx.array:
    """Return x (…, inputs) times weight (outputs, inputs), transposed."""
    if few_rows.fits_dense(x, weight) and backend() == "cuda":
        return few_rows.dense(x, weight)
    return x @ weight.T


def packed_product(x: mx.array, layer: nn.Module) -> mx.array:
    """Return x (…, inputs) times the weights of a quantized layer, without its bias."""
    if backend() == "cuda":
        return _packed_on_cuda(x, layer)
    if x.size <= CPU_ROWS * x.shape[-1]:
        return _mlx_packed(x, layer)
    return x @ dequantize_float32(layer).T


def _packed_on_cuda(x: mx.array, layer: nn.Module) -> mx.array:
    weight: mx.array = layer["weight"]
    scales: mx.array = layer["scales"]
    biases: mx.array | None = layer.get("biases")
    group_size: int = layer.group_size
    if biases is not None and layer.bits == 4:
        if few_rows.fits_packed4(x, weight, scales):
            return few_rows.packed4(x, weight, scales, biases, group_size)
        if scales.dtype in few_rows.HALF:
            return x @ few_rows.dequantize4(weight, scales, biases, group_size).T
    if x.size <= CUDA_ROWS * x.shape[-1]:
        return _mlx_packed(x, layer)
    dequantized = mx.dequantize(
        weight, scales, biases, group_size, layer.bits, mode=layer.mode, dtype=x.dtype
    )
    return x @ dequantized.T


def _mlx_packed(x: mx.array, layer: nn.Module) -> mx.array:
    return mx.quantized_matmul(
        x,
        layer["weight"],
        layer["scales"],
        layer.get("biases"),
        transpose=True,
        group_size=layer.group_size,
        bits=layer.bits,
        mode=layer.mode,
    )


def _taking_over(new: L, layer: nn.Module) -> L:
    """Give `new`, of a subclass of the layer's class, the layer's arrays and settings."""
    nn.Module.__init__(new)
    new.__dict__.update(layer.__dict__)
    dict.update(new, layer)
    return new
