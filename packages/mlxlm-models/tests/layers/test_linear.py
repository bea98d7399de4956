import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_models.layers.linear import CPU_ROWS as ROWS
from mlxlm_models.layers.linear import PackedEmbedding, PackedLinear


@pytest.mark.parametrize("rows", [1, ROWS, ROWS + 1, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mode", ["affine", "mxfp4"])
def test_linear_computes_the_same_for_any_number_of_rows(rows: int, bias: bool, mode: str) -> None:
    layer = nn.QuantizedLinear(64, 96, bias=bias, group_size=32, bits=4, mode=mode)
    if bias:
        layer.bias = mx.random.normal((96,))
    x = mx.random.normal((1, rows, 64))
    packed = PackedLinear.from_quantized(layer)
    assert packed.weight is layer.weight
    assert mx.allclose(packed(x), layer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, ROWS + 1])
def test_embedding_computes_the_same(rows: int) -> None:
    layer = nn.QuantizedEmbedding(96, 64, group_size=32, bits=8)
    packed = PackedEmbedding.from_quantized(layer)
    tokens = mx.arange(rows)[None]
    assert mx.array_equal(packed(tokens), layer(tokens))
    x = mx.random.normal((1, rows, 64))
    assert mx.allclose(packed.as_linear(x), layer.as_linear(x), rtol=1e-5, atol=1e-5)
