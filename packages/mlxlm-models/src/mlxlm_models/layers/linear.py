"""How layers with packed weights compute: which product, by device and number of rows.

Rows are all tokens of all sequences together. Measured:

- CPU: packed up to `CPU_ROWS` rows, then dequantized to float32 and multiplied in the BLAS.
- CUDA: our kernel up to its `MAX_ROWS` rows where it fits, else packed up to `CUDA_ROWS`,
  then dequantized and multiplied. Rows are always flattened into one axis: MLX would read
  the weights again for every sequence of the batch.
- Metal: as MLX does it; layers are left alone.
"""

from collections.abc import Callable
from typing import Self

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlxlm_cache.device import Backend, backend

from mlxlm_models.dequantize import dequantize_float32
from mlxlm_models.kernels import few_rows
from mlxlm_models.tree import modules_of

CPU_ROWS = 6
"""The packed product takes 1.0 to 1.3 ns a weight and row, dequantizing 4.5 ns a weight."""

CUDA_ROWS = 64

Product = Callable[[mx.array, nn.Module], mx.array]
"""x (…, inputs) and a quantized layer → (…, outputs), without the layer's bias."""


def as_packed(model: nn.Module) -> None:
    """Replace quantized layers of `model` by those that choose their product; not on Metal."""
    if backend() == "metal":
        return
    found = [(path, packed(module)) for path, module in modules_of(model).items() if _is(module)]
    if found:
        model.update_modules(tree_unflatten(found))


def packed(module: nn.Module) -> nn.Module:
    """Return a quantized layer, sharing the arrays of `module`, that chooses its product."""
    if isinstance(module, nn.QuantizedEmbedding):
        return PackedEmbedding.from_quantized(module)
    assert isinstance(module, nn.QuantizedLinear)
    return PackedLinear.from_quantized(module)


def _is(module: nn.Module) -> bool:
    return isinstance(module, nn.QuantizedLinear | nn.QuantizedEmbedding)


class PackedLinear(nn.QuantizedLinear):
    """A quantized linear layer that chooses its product."""

    @classmethod
    def from_quantized(cls, layer: nn.QuantizedLinear) -> Self:
        rows, columns = _dims(layer)
        new = cls(columns, rows, "bias" in layer, layer.group_size, layer.bits, layer.mode)
        new.update(dict(layer))
        new._product = product_of(backend())
        return new

    def __call__(self, x: mx.array) -> mx.array:
        y = self._product(x, self)
        return y + self["bias"] if "bias" in self else y


class PackedEmbedding(nn.QuantizedEmbedding):
    """A quantized embedding whose `as_linear` chooses its product."""

    @classmethod
    def from_quantized(cls, layer: nn.QuantizedEmbedding) -> Self:
        rows, columns = _dims(layer)
        new = cls(rows, columns, layer.group_size, layer.bits, layer.mode)
        new.update(dict(layer))
        new._product = product_of(backend())
        new._dtype = mx.float32 if backend() == "cpu" else None
        return new

    def __call__(self, tokens: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][tokens],
            self["scales"][tokens],
            None if biases is None else biases[tokens],
            self.group_size,
            self.bits,
            mode=self.mode,
            dtype=self._dtype,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        return self._product(x, self)


def product_of(backend: Backend) -> Product:
    """Return the choice of products for a backend."""
    return {"cpu": cpu_product, "cuda": cuda_product, "metal": packed_product}[backend]


def packed_product(x: mx.array, layer: nn.Module) -> mx.array:
    """MLX's own product of packed weights."""
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


def cpu_product(x: mx.array, layer: nn.Module) -> mx.array:
    if x.size <= CPU_ROWS * x.shape[-1]:
        return packed_product(x, layer)
    return x @ dequantize_float32(layer).T


def cuda_product(x: mx.array, layer: nn.Module) -> mx.array:
    rows = x.reshape(-1, x.shape[-1])
    weight, scales = layer["weight"], layer["scales"]
    affine4 = layer.bits == 4 and layer.mode == "affine"
    if affine4 and few_rows.fits_packed4(rows, weight, scales):
        y = few_rows.packed4(rows, weight, scales, layer["biases"], layer.group_size)
    elif rows.shape[0] <= CUDA_ROWS:
        y = packed_product(rows, layer)
    elif affine4 and scales.dtype in few_rows.HALF:
        y = rows @ few_rows.dequantize4(weight, scales, layer["biases"], layer.group_size).T
    else:
        y = rows @ dequantized(layer).T
    return y.reshape(*x.shape[:-1], y.shape[-1])


class DenseLinear(nn.Linear):
    """A linear layer with 16-bit weights on CUDA, which has a kernel for few rows."""

    @classmethod
    def from_linear(cls, layer: nn.Linear) -> Self:
        new = cls(1, 1, "bias" in layer)
        new.update(dict(layer))
        return new

    def __call__(self, x: mx.array) -> mx.array:
        y = cuda_dense_product(x, self["weight"])
        return y + self["bias"] if "bias" in self else y


def cuda_dense_product(x: mx.array, weight: mx.array) -> mx.array:
    rows = x.reshape(-1, x.shape[-1])
    if few_rows.fits_dense(rows, weight):
        return few_rows.dense(rows, weight).reshape(*x.shape[:-1], -1)
    return x @ weight.T


def dequantized(layer: nn.Module) -> mx.array:
    """Return the weight (outputs, inputs) of a quantized layer in the dtype of its scales."""
    return mx.dequantize(
        layer["weight"],
        layer["scales"],
        layer.get("biases"),
        layer.group_size,
        layer.bits,
        mode=layer.mode,
    )


def _dims(layer: nn.Module) -> tuple[int, int]:
    rows, columns = layer.weight.shape
    return rows, columns * 32 // layer.bits
