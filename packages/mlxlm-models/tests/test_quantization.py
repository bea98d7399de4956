from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlxlm_models.errors import ConfigError, WeightsError
from mlxlm_models.layers.router import RouterSpec, WideGate
from mlxlm_models.quantization import (
    DEFAULTS,
    Quantization,
    quantize_layers,
    read_settings,
    unpack_whole,
)
from mlxlm_models.weights import assign


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 64)
        self.layers = [nn.Linear(64, 64), nn.Linear(64, 32)]

    def __call__(self, tokens: mx.array) -> mx.array:
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return h


TOKENS = mx.arange(8)[None]


def quantized(**how: Any) -> tuple[dict[str, mx.array], mx.array]:
    """Return a checkpoint of a model quantized by `how`, and what the model computes."""
    model = Model()
    nn.quantize(model, **how)
    return dict(tree_flatten(model.parameters())), model(TOKENS)


def load(config: dict[str, Any], weights: dict[str, mx.array]) -> nn.Module:
    model = Model()
    quantize_layers(model, weights, read_settings(config), "here")
    assign(model, weights, "here")
    return model


@pytest.mark.parametrize("mode", DEFAULTS)
def test_round_trip(mode: str) -> None:
    group_size, bits = DEFAULTS[mode]
    weights, expected = quantized(mode=mode)
    config = {"quantization": {"group_size": group_size, "bits": bits, "mode": mode}}
    assert mx.array_equal(load(config, weights)(TOKENS), expected)
    assert mx.array_equal(load({"quantization": {"mode": mode}}, weights)(TOKENS), expected)


def test_layers_deviate_and_scales_decide() -> None:
    def how(path: str, _: nn.Module) -> bool | dict[str, Any]:
        return {"embed": {"group_size": 32, "bits": 8}, "layers.1": False}.get(path, True)

    weights, expected = quantized(class_predicate=how)
    settings = {
        "group_size": 64,
        "bits": 4,
        "embed": {"group_size": 32, "bits": 8},
        "layers.1": False,
    }
    model = load({"quantization": settings}, weights)
    assert mx.array_equal(model(TOKENS), expected)
    assert isinstance(model.layers[0], nn.QuantizedLinear)
    assert isinstance(model.layers[1], nn.Linear)
    assert model.embed.bits == 8


def test_mlx_copy_in_quantization_config_is_enough() -> None:
    weights, expected = quantized()
    config = {"quantization_config": {"group_size": 64, "bits": 4}}
    assert mx.array_equal(load(config, weights)(TOKENS), expected)


def test_no_settings() -> None:
    assert read_settings({}) is None
    assert read_settings({"quantization": None}) is None
    model = Model()
    plain = dict(tree_flatten(model.parameters()))
    assert isinstance(load({}, plain).layers[0], nn.Linear)


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes", "fp8"])
def test_methods_of_others_are_named(method: str) -> None:
    with pytest.raises(ConfigError, match=f"'{method}'.*MLX version"):
        read_settings({"quantization_config": {"quant_method": method, "bits": 4}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "int4"}, "unknown mode 'int4'"),
        ({"bits": 7}, "bits 7"),
        ({"group_size": 48}, "group_size 48"),
        ({"mode": "mxfp4", "group_size": 64}, "mxfp4"),
        ({"lm_head": {"bits": 9}}, "'lm_head'.*bits 9"),
        (4, "an object is needed"),
    ],
)
def test_unusable_settings(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings({"quantization": settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 8}, r"'embed'.*stored with 4 bits and group size 64.*says 8 bits"),
        ({"group_size": 32}, r"'embed'.*group size 64.*says 4 bits and group size 32"),
        ({"layers.1": {"bits": 2}}, r"'layers.1'.*4 bits.*says 2 bits"),
    ],
)
def test_settings_of_another_checkpoint_name_the_layer(settings: Any, message: str) -> None:
    weights, _ = quantized()
    with pytest.raises(WeightsError, match=message):
        load({"quantization": settings}, weights)


def test_quantized_weights_without_settings() -> None:
    weights, _ = quantized()
    with pytest.raises(WeightsError, match="no `quantization`"):
        load({}, weights)


def test_settings_know_their_layers() -> None:
    settings = read_settings({"quantization": {"bits": 4, "a": {"bits": 8, "group_size": 32}}})
    assert settings is not None
    assert settings.of("a") == Quantization(32, 8)
    assert settings.of("b") == Quantization(64, 4)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = WideGate(64, RouterSpec(experts=4, top_k=2, wide=True))


def test_gates_that_are_never_quantized_are_unpacked() -> None:
    """Converted checkpoints may have them packed like any layer."""
    weight = mx.random.normal((4, 64))
    packed, scales, biases = mx.quantize(weight, 32, 8)
    weights = {"gate.weight": packed, "gate.scales": scales, "gate.biases": biases}
    settings = read_settings({"quantization": {"group_size": 32, "bits": 8}})
    model = Gated()
    found = unpack_whole(model, weights, settings, "here")
    assert found.keys() == {"gate.weight"}
    assert mx.array_equal(found["gate.weight"], mx.dequantize(packed, scales, biases, 32, 8)).item()
    assert weights.keys() == {"gate.weight", "gate.scales", "gate.biases"}
    assign(model, found, "here")
    with pytest.raises(WeightsError, match=r"layer 'gate' is stored with 8 bits"):
        unpack_whole(
            model, weights, read_settings({"quantization": {"group_size": 32, "bits": 4}}), "here"
        )
