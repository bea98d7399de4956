from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.layers.rope import DynamicRopeSpec, RopeSpec

X = mx.random.normal((2, 3, 5, 8), key=mx.random.key(0))


def at(offset: Any) -> Any:
    return SimpleNamespace(offset=offset)


def rotated(x: Any, inverse: Any, offset: Any, dims: int, traditional: bool = False) -> Any:
    """Rotate in numpy, float64."""
    x = np.array(x, np.float64)
    angles = (offset + np.arange(x.shape[-2]))[:, None] * np.array(inverse)
    cos, sin = np.cos(angles), np.sin(angles)
    out = x.copy()
    pairs = (slice(0, dims, 2), slice(1, dims, 2))
    halves = (slice(0, dims // 2), slice(dims // 2, dims))
    a, b = pairs if traditional else halves
    out[..., a] = x[..., a] * cos - x[..., b] * sin
    out[..., b] = x[..., b] * cos + x[..., a] * sin
    return out


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("dims", [4, 8])
def test_rotation_is_the_formula(dims: int, traditional: bool) -> None:
    inverse = [100.0 ** (-i / dims) / 2 for i in range(0, dims, 2)]
    by_base = RopeSpec(dims, 100.0, scale=0.5, traditional=traditional).build()
    by_freqs = RopeSpec(dims, freqs=tuple(1 / i for i in inverse), traditional=traditional).build()
    expected = rotated(X, inverse, 7, dims, traditional)
    for rope in (by_base, by_freqs):
        queries, keys = rope(X, X[:, :1], at(7))
        np.testing.assert_allclose(np.array(queries), expected, atol=1e-5)
        np.testing.assert_allclose(np.array(keys), expected[:, :1], atol=1e-5)


@pytest.mark.parametrize("dims", [4, 8])
def test_magnitude_multiplies_what_is_rotated_and_nothing_else(dims: int) -> None:
    plain, _ = RopeSpec(dims).build()(X, X)
    magnified, _ = RopeSpec(dims, magnitude=1.5).build()(X, X)
    assert mx.allclose(magnified[..., :dims], 1.5 * plain[..., :dims]).item()
    assert mx.array_equal(magnified[..., dims:], plain[..., dims:]).item()
    half = X.astype(mx.bfloat16)
    assert RopeSpec(dims, magnitude=1.5).build()(half, half)[0].dtype == mx.bfloat16


def test_equal_specs_share_one_rotation() -> None:
    assert RopeSpec(8).build() is RopeSpec(8).build()
    assert RopeSpec(8).build() is not RopeSpec(8, 5.0).build()


def test_dynamic_base_grows_beyond_the_original_length() -> None:
    spec = DynamicRopeSpec(8, 100.0, factor=2.0, original_length=16)
    within, _ = spec.build()(X, X, at(11))
    assert mx.array_equal(within, RopeSpec(8, 100.0).build()(X, X, at(11))[0]).item()
    base = 100.0 * (2.0 * 25 / 16 - 1) ** (8 / 6)
    beyond, _ = spec.build()(X, X, at(20))
    expected = RopeSpec(8, base).build()(X, X, at(20))[0]
    assert mx.allclose(beyond, expected, atol=1e-5).item()


DYNAMIC = DynamicRopeSpec(8, 100.0, factor=2.0, original_length=16)


@pytest.mark.parametrize(
    "spec",
    [RopeSpec(8, 100.0), DYNAMIC, replace(DYNAMIC, traditional=True), replace(DYNAMIC, dims=4)],
)
def test_each_sequence_of_a_batch_may_have_its_own_offset(spec: Any) -> None:
    batch, _ = spec.build()(X, X, at(mx.array([20, 20])))
    assert mx.allclose(batch, spec.build()(X, X, at(20))[0], atol=1e-4).item()
    ragged, _ = spec.build()(X, X, at(mx.array([3, 20])))
    assert mx.allclose(ragged[1], batch[1], atol=1e-4).item()
    assert mx.allclose(ragged[0], spec.build()(X, X, at(3))[0][0], atol=1e-4).item()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 5000), st.integers(0, 100))
def test_scores_depend_on_distance_only(start: int, distance: int) -> None:
    rope = RopeSpec(8, 10000.0).build()
    x = mx.random.normal((1, 1, 1, 8), key=mx.random.key(1))
    y = mx.random.normal((1, 1, 1, 8), key=mx.random.key(2))

    def score(offset: Any) -> Any:
        return (rope(x, x, at(offset + distance))[0] * rope(y, y, at(offset))[0]).sum().item()

    assert score(start) == pytest.approx(score(0), abs=5e-3)
