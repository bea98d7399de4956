import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_models.dequantize import dequantize_float32
from mlxlm_models.quantization import MODES

CASES = [
    (mode, group_size, bits)
    for mode, (sizes, widths) in MODES.items()
    for group_size in sizes
    for bits in widths
]


@pytest.mark.parametrize(("mode", "group_size", "bits"), CASES)
def test_equals_the_kernel_in_float32(mode: str, group_size: int, bits: int) -> None:
    layer = nn.QuantizedLinear(128, 8, group_size=group_size, bits=bits, mode=mode)
    expected = mx.dequantize(
        layer.weight, layer.scales, layer.get("biases"), group_size, bits, mode=mode
    )
    weight = dequantize_float32(layer)
    assert weight.dtype == mx.float32
    assert mx.allclose(weight, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bits", [4, 5, 8])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_16_bit_scales_are_not_rounded_again(bits: int, dtype: mx.Dtype) -> None:
    layer = nn.QuantizedLinear(64, 8, group_size=32, bits=bits)
    layer.scales, layer.biases = layer.scales.astype(dtype), layer.biases.astype(dtype)
    expected = mx.dequantize(
        layer.weight, layer.scales.astype(mx.float32), layer.biases.astype(mx.float32), 32, bits
    )
    assert mx.allclose(dequantize_float32(layer), expected, rtol=1e-6, atol=1e-7)
