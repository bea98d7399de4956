import mlx.core as mx
import pytest
from mlxlm_models.layers.multilinear import MultiLinear

X = mx.random.normal((2, 3, 5, 64), key=mx.random.key(0))


def test_each_head_has_its_own_matrix() -> None:
    layer = MultiLinear(3, 64, 32)
    y = layer(X)
    assert y.shape == (2, 3, 5, 32)
    assert mx.allclose(y[1, 2], X[1, 2] @ layer.weight[2].T, atol=1e-5).item()
    back = layer.transposed(y)
    assert mx.allclose(back[1, 2], y[1, 2] @ layer.weight[2], atol=1e-5).item()


def test_one_input_serves_all_heads() -> None:
    layer = MultiLinear(3, 64, 32)
    assert mx.allclose(layer(X[:, :1])[:, 2], X[:, 0] @ layer.weight[2].T, atol=1e-5).item()


@pytest.mark.parametrize("mode", ["affine", "mxfp4"])
def test_packed_computes_what_its_unpacked_weights_do(mode: str) -> None:
    layer = MultiLinear(3, 64, 32)
    packed = layer.to_quantized(32, 4, mode)
    biases = packed.biases if mode == "affine" else None
    layer.weight = mx.dequantize(
        packed.weight, packed.scales, biases, group_size=32, bits=4, mode=mode
    )
    assert mx.allclose(packed(X), layer(X), atol=1e-4).item()
    y = layer(X)
    assert mx.allclose(packed.transposed(y), layer.transposed(y), atol=1e-4).item()
