"""How weights are kept when MLX computes on the CPU.

There, 16-bit products are several times slower than float32 ones, and packed ones do
not go through the BLAS. So everything is float32, and quantized weights are dequantized
once where memory allows. On Metal and CUDA weights stay as the checkpoint has them.
"""

import logging
from collections.abc import Callable
from typing import Literal, get_args

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlxlm_cache.device import available_memory, backend

from mlxlm_models.dequantize import dequantize_float32
from mlxlm_models.layers.linear import choose_products
from mlxlm_models.tree import modules_of, parameters_of

CpuWeights = Literal["auto", "packed", "float32"]

SHARE = 0.5
"""Of the available memory, what float32 weights may take under `auto`."""

_GB = 1e9
_log = logging.getLogger(__name__)


def check_cpu_weights(choice: str) -> None:
    if choice not in get_args(CpuWeights):
        raise ValueError(f"cpu_weights={choice!r}: choose from {', '.join(get_args(CpuWeights))}.")


def apply_cpu_policy(model: nn.Module, cpu_weights: CpuWeights = "auto") -> None:
    """Convert the parameters of `model`, lazily, and log the choice.

    `float32`: all weights dequantized and float32. `packed`: quantized ones stay packed,
    their scales and everything else float32. `auto`: float32 if that fits `SHARE` of the
    available memory, else packed; and where even that does not fit, 16-bit parameters
    stay 16-bit. Does nothing on other backends.
    """
    check_cpu_weights(cpu_weights)
    if backend() != "cpu":
        if cpu_weights != "auto":
            _log.warning("cpu_weights=%r has no effect on %s.", cpu_weights, backend())
        return
    bound = SHARE * available_memory()
    quantized = [module for _, module in _quantized(model)]
    kept = sum(map(_float32_bytes, _arrays(model)))
    unpacked = kept + sum(map(_growth, quantized))
    if cpu_weights == "float32" or (cpu_weights == "auto" and unpacked <= bound):
        _replace(model, dequantized)
        _to_float32(model)
        what, size = ("float32, dequantized" if quantized else "float32"), unpacked
    else:
        choose_products(model)
        if cpu_weights == "packed" or kept <= bound:
            _to_float32(model)
            what, size = ("packed, computed in float32" if quantized else "float32"), kept
        else:
            what = "as in the checkpoint, slow: their float32 form is too large"
            size = sum(array.nbytes for array in _arrays(model))
    _log.info(
        "CPU weights: %s (%.2f GB; %.2f GB of memory available).",
        what,
        size / _GB,
        bound / SHARE / _GB,
    )


def cpu_policy() -> str:
    """Return in a few words how `load` keeps weights here, with `cpu_weights="auto"`."""
    if backend() != "cpu":
        return "as in the checkpoint"
    bound = SHARE * available_memory() / _GB
    return f"float32 up to {bound:.1f} GB, quantized ones packed beyond"


def dequantized(module: nn.Module) -> nn.Module:
    """Return the float32 layer that computes what a quantized one does."""
    weight = dequantize_float32(module)
    rows, columns = weight.shape
    plain: nn.Module
    if isinstance(module, nn.QuantizedEmbedding):
        plain = nn.Embedding(rows, columns)
    else:
        plain = nn.Linear(columns, rows, bias="bias" in module)
        if "bias" in module:
            plain.bias = module.bias
    plain.weight = weight
    return plain


def _quantized(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [
        (path, module)
        for path, module in modules_of(model).items()
        if isinstance(module, nn.QuantizedLinear | nn.QuantizedEmbedding)
    ]


def _replace(model: nn.Module, convert: Callable[[nn.Module], nn.Module]) -> None:
    found = [(path, convert(module)) for path, module in _quantized(model)]
    if found:
        model.update_modules(tree_unflatten(found))


def _to_float32(model: nn.Module) -> None:
    def cast(array: mx.array) -> mx.array:
        return array.astype(mx.float32) if array.dtype in (mx.float16, mx.bfloat16) else array

    model.update(tree_unflatten([(k, cast(v)) for k, v in parameters_of(model).items()]))


def _arrays(module: nn.Module) -> list[mx.array]:
    return list(parameters_of(module).values())


def _float32_bytes(array: mx.array) -> int:
    return 4 * array.size if array.dtype in (mx.float16, mx.bfloat16) else array.nbytes


def _growth(layer: nn.Module) -> int:
    """Return by how many bytes a packed layer grows when it is dequantized."""
    packed = [layer.weight, layer.scales, layer.get("biases")]
    before = sum(_float32_bytes(array) for array in packed if array is not None)
    weights = int(layer.weight.size) * 32 // int(layer.bits)
    return 4 * weights - before
