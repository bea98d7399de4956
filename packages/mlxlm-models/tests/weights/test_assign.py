import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlxlm_models.errors import WeightsError
from mlxlm_models.weights import assign


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, bias=False))


@pytest.fixture
def weights() -> dict[str, mx.array]:
    return {
        "layers.0.weight": mx.ones((2, 3)),
        "layers.0.bias": mx.ones((2,)),
        "layers.1.weight": mx.ones((2, 2)),
    }


def test_replaces_every_parameter(model: nn.Module, weights: dict[str, mx.array]) -> None:
    assign(model, weights, "here")
    for name, array in tree_flatten(model.parameters()):
        assert array is weights[name]


def check_untouched(model: nn.Module, weights: dict[str, mx.array], message: str) -> None:
    before = dict(tree_flatten(model.parameters()))
    with pytest.raises(WeightsError, match=message):
        assign(model, weights, "here")
    for name, array in tree_flatten(model.parameters()):
        assert array is before[name]


def test_missing(model: nn.Module, weights: dict[str, mx.array]) -> None:
    del weights["layers.0.bias"]
    check_untouched(model, weights, "here lacks 1 of the model's 3 tensors: layers.0.bias")


def test_extra(model: nn.Module, weights: dict[str, mx.array]) -> None:
    weights["layers.1.bias"] = mx.ones((2,))
    check_untouched(model, weights, "here has 1 tensors that the model does not use: layers.1.bias")


def test_misshapen(model: nn.Module, weights: dict[str, mx.array]) -> None:
    weights["layers.0.weight"] = mx.ones((3, 2))
    check_untouched(model, weights, r"layers.0.weight is \(3, 2\), expected \(2, 3\)")


def test_many_are_counted(model: nn.Module) -> None:
    extra = {f"x{i}": mx.ones((1,)) for i in range(9)}
    assigned = dict(tree_flatten(model.parameters()))
    check_untouched(model, assigned | extra, "9 tensors .* x0, x1, x2, x3, x4 and 4 more")
