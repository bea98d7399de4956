from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlxlm_models.layers.norms import NormSpec


def reference(x: Any, factor: Any, eps: Any) -> Any:
    x = np.array(x.astype(mx.float32), np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * factor


def test_rms_multiplies_by_the_weight() -> None:
    norm = NormSpec(1e-5).build(16)
    norm.weight = mx.random.normal((16,), key=mx.random.key(1))
    x = mx.random.normal((2, 3, 16), key=mx.random.key(0))
    expected = reference(x, np.array(norm.weight), 1e-5)
    np.testing.assert_allclose(np.array(norm(x)), expected, rtol=1e-5, atol=1e-6)


def test_offset_rms_adds_one_in_float32() -> None:
    """In bfloat16, 1 + 0.002 is 1."""
    norm = NormSpec(1e-5, "rms_offset").build(16)
    norm.weight = mx.full((16,), 0.002, mx.bfloat16)
    x = mx.random.normal((64, 16), key=mx.random.key(0))
    expected = reference(x, 1 + 0.002, 1e-5)
    np.testing.assert_allclose(np.array(norm(x)), expected, rtol=1e-4, atol=1e-6)
    assert norm(x.astype(mx.bfloat16)).dtype == mx.bfloat16


def test_offset_rms_follows_a_new_weight() -> None:
    norm = NormSpec(1e-5, "rms_offset").build(4)
    x = mx.array([[1.0, 2.0, 3.0, 4.0]])
    before = norm(x)
    norm.update({"weight": mx.ones(4)})
    assert mx.allclose(norm(x), 2 * before).item()
    norm.set_dtype(mx.bfloat16)
    assert mx.allclose(norm(x), 2 * before, rtol=1e-3).item()


def test_offset_rms_has_one_parameter_and_trains(parameters: Any) -> None:
    norm = NormSpec(1e-5, "rms_offset").build(4)
    x = mx.array([[1.0, 2.0, 3.0, 4.0]])
    norm(x)
    assert parameters(norm).keys() == {"weight"}
    _, gradients = nn.value_and_grad(norm, lambda x: norm(x).sum())(x)
    assert mx.allclose(gradients["weight"], norm(x)[0], rtol=1e-5).item()
    np.testing.assert_allclose(np.array(norm(x)), reference(x, 1.0, 1e-5), rtol=1e-5)


def test_layer_norms_with_and_without_what_they_learn(parameters: Any) -> None:
    x = mx.random.normal((3, 16), key=mx.random.key(0))
    centred = np.array(x, np.float64) - np.array(x, np.float64).mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    bare = NormSpec(1e-5, "layer", weight=False).build(16)
    assert parameters(bare) == {}
    np.testing.assert_allclose(np.array(bare(x)), expected, atol=1e-5)
    assert parameters(NormSpec(1e-5, "layer").build(16)).keys() == {"weight"}
    whole: Any = NormSpec(1e-5, "layer", bias=True).build(16)
    whole.weight, whole.bias = mx.full((16,), 3.0), mx.full((16,), 0.5)
    np.testing.assert_allclose(np.array(whole(x)), 3 * expected + 0.5, atol=1e-5)
    offset: Any = NormSpec(1e-5, "layer_offset", bias=True).build(16)
    offset.weight, offset.bias = mx.full((16,), 2.0), mx.full((16,), 0.5)
    np.testing.assert_allclose(np.array(offset(x)), 3 * expected + 0.5, atol=1e-5)
    assert offset(x.astype(mx.bfloat16)).dtype == mx.bfloat16


def test_rms_without_a_weight(parameters: Any) -> None:
    norm = NormSpec(1e-5, weight=False).build(16)
    assert parameters(norm) == {}
    x = mx.random.normal((3, 16), key=mx.random.key(0))
    np.testing.assert_allclose(np.array(norm(x)), reference(x, 1.0, 1e-5), atol=1e-5)


def test_an_input_norm_weighs_before_it_takes_the_rms() -> None:
    norm = NormSpec(1e-5, "rms_input").build(8)
    norm.weight = mx.random.normal((8,))
    x = mx.random.normal((3, 8))
    scaled = x * (1 + norm.weight)
    expected = scaled * mx.rsqrt((scaled**2).mean(axis=-1, keepdims=True) + 1e-5)
    assert mx.allclose(norm(x), expected, atol=1e-6).item()
