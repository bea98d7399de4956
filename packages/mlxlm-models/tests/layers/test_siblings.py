import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_models.layers import linear
from mlxlm_models.layers.linear import DenseLinear, PackedLinear
from mlxlm_models.layers.siblings import MAX_ROWS, join_siblings

SIZES = {"q_proj": 64, "k_proj": 32, "v_proj": 32}


class Three(nn.Module):
    def __init__(self, packed: bool, bias: bool = False) -> None:
        super().__init__()
        for name, size in SIZES.items():
            layer = nn.Linear(64, size, bias=bias)
            if packed:
                self[name] = PackedLinear.from_quantized(layer.to_quantized(32, 4))
            else:
                self[name] = DenseLinear.from_linear(layer)

    def __call__(self, x: mx.array) -> list[mx.array]:
        return [self[name](x) for name in SIZES]


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The outputs of each product that is computed, in turn."""
    seen: list[int] = []
    for name in ("dense_product", "packed_product"):
        real = getattr(linear, name)

        def counted(x: mx.array, of: object, real: object = real) -> mx.array:
            y: mx.array = real(x, of)  # type: ignore[operator]
            seen.append(y.shape[-1])
            return y

        monkeypatch.setattr(linear, name, counted)
    return seen


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_few_rows_are_one_product(packed: bool, bias: bool, products: list[int]) -> None:
    model = Three(packed, bias)
    model.eval()
    x = mx.random.normal((2, 3, 64), key=mx.random.key(0))
    apart = model(x)
    products.clear()
    join_siblings(model)
    together = model(x)
    assert products == [128]
    for one, other in zip(apart, together, strict=True):
        assert mx.allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_model_in_training_mode_when_joined_uses_our_product_later(products: list[int]) -> None:
    model = Three(packed=True)
    assert model.training
    join_siblings(model)
    model.eval()
    model(mx.zeros((1, 2, 64)))
    assert products == [128]


def test_in_training_each_layer_is_on_its_own(products: list[int]) -> None:
    model = Three(packed=False)
    join_siblings(model)
    model(mx.zeros((1, 2, 64)))
    assert products == []  # nn.Linear's own, which has a gradient
    model.eval()
    model(mx.zeros((1, MAX_ROWS + 1, 64)))
    assert products == list(SIZES.values())


def test_a_layer_that_got_another_weight_is_heard(products: list[int]) -> None:
    model = Three(packed=False)
    model.eval()
    join_siblings(model)
    x = mx.random.normal((1, 1, 64), key=mx.random.key(1))
    model["k_proj"].weight = mx.ones((32, 64))
    _, keys, _ = model(x)
    assert mx.allclose(keys, mx.full((1, 1, 32), x.sum()), rtol=1e-5, atol=1e-5)
    assert products == list(SIZES.values())


def test_outputs_are_not_kept(products: list[int]) -> None:
    model = Three(packed=False)
    model.eval()
    join_siblings(model)
    x = mx.ones((1, 1, 64))
    first = model(x)
    second = model(x)
    assert products == [128, 128]
    assert all(mx.array_equal(a, b) for a, b in zip(first, second, strict=True))
