from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.gguf.blocks import GROUP, PACKED_BITS, repack
from numpy.typing import NDArray

KINDS = sorted(PACKED_BITS)


def unpacked(kind: str, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    packed = repack(kind, data)
    weight = mx.dequantize(
        packed.weight,
        packed.scales.astype(mx.float32),
        packed.biases.astype(mx.float32),
        GROUP,
        PACKED_BITS[kind],
    )
    return np.array(weight)


@given(
    kind=st.sampled_from(KINDS),
    rows=st.integers(1, 3),
    blocks=st.integers(1, 3),
    seed=st.integers(0),
)
@settings(max_examples=40, deadline=None)
def test_any_block_keeps_its_values(kind: str, rows: int, blocks: int, seed: int) -> None:
    """Random bytes, all finite scales: float32 rounding of w = d * q + m is the only freedom."""
    size = gguf.GGML_QUANT_SIZES[Type[kind]][1]
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (rows, blocks, size), np.uint8)
    for at in (1, 3) if kind == "Q4_1" else (1,):
        data[..., at] &= 0xFB  # not all exponent bits: neither infinite nor NaN
    data = data.reshape(rows, -1)
    expected = gguf.dequantize(data, Type[kind])
    scale = np.abs(expected).max(initial=1e-30)
    np.testing.assert_allclose(unpacked(kind, data), expected, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_scales_stay_float16(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    data = gguf.quantize(values, Type[kind])
    packed = repack(kind, data)
    assert packed.scales.dtype == packed.biases.dtype == mx.float16
    assert packed.weight.shape == (4, 64 * PACKED_BITS[kind] // 32)
    assert packed.scales.shape == packed.biases.shape == (4, 2)
    assert np.array_equal(unpacked(kind, data), gguf.dequantize(data, Type[kind]))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_large_scales_go_to_float32(kind: str) -> None:
    data = gguf.quantize(np.full((1, 32), -1e5, np.float32), Type[kind])
    packed = repack(kind, data)
    assert packed.biases.dtype == mx.float32
    assert np.array_equal(unpacked(kind, data), gguf.dequantize(data, Type[kind]))


def test_other_types_have_no_packed_form() -> None:
    data: Any = np.zeros((1, 144), np.uint8)
    with pytest.raises(NotImplementedError, match="Q4_K"):
        repack("Q4_K", data)
