from collections.abc import Callable
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import quantized_scaled_dot_product_attention


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group_size", [32, 64])
def test_it_equals_attention_over_the_unpacked_values(
    bits: int, group_size: int, attention: Callable[..., np.ndarray]
) -> None:
    pack = partial(mx.quantize, group_size=group_size, bits=bits)
    unpack = partial(mx.dequantize, group_size=group_size, bits=bits)
    q, k, v = (mx.random.normal((2, 4, 9, 64), key=mx.random.key(i)) for i in range(3))
    keys, values = pack(k[:, :2]), pack(v[:, :2])
    sinks = mx.array([0.0, 1.0, -2.0, 4.0])
    out = quantized_scaled_dot_product_attention(
        q, keys, values, scale=0.125, mask="causal", sinks=sinks, group_size=group_size, bits=bits
    )
    expected = attention(
        np.array(q),
        np.array(unpack(*keys)),
        np.array(unpack(*values)),
        0.125,
        np.tril(np.ones((9, 9), dtype=bool)),
        np.array(sinks),
    )
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_an_unknown_mask_is_an_error() -> None:
    x = mx.zeros((1, 1, 2, 64))
    packed = mx.quantize(x, group_size=64, bits=8)
    with pytest.raises(ValueError, match='mask must be an array, "causal" or None, not'):
        quantized_scaled_dot_product_attention(x, packed, packed, scale=1.0, mask="full")  # type: ignore[arg-type]
