import math
import sys

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import fast_exp, fast_exp_pays
from mlxlm_cache.cpu_exp import fast_exp2


def numbers(low: float, high: float) -> mx.array:
    return mx.random.uniform(low, high, (100_000,), key=mx.random.key(0))


@pytest.mark.parametrize(
    ("low", "high", "bound"), [(-1, 1, 4e-7), (-10, 10, 1e-6), (-87, 88, 6e-6)]
)
def test_exp_is_as_exact_as_its_argument(low: float, high: float, bound: float) -> None:
    x = numbers(low, high)
    exact = np.exp(np.array(x, dtype=np.float64))
    np.testing.assert_allclose(fast_exp(x), exact, rtol=bound)


def test_powers_of_two_are_exact() -> None:
    x = mx.arange(-126, 128).astype(mx.float32)
    assert fast_exp2(x).tolist() == [2.0**n for n in range(-126, 128)]


def test_infinities_and_nan() -> None:
    x = mx.array([math.inf, -math.inf, -1000, 1000, 0, math.nan])
    expected = [math.inf, 0, 0, math.inf, 1, math.nan]
    np.testing.assert_array_equal(fast_exp(x), expected)


def test_the_smallest_results_are_nearly_zero() -> None:
    out = np.array(fast_exp2(mx.linspace(-160, -126, 1000)))
    assert (out >= 0).all()
    assert (out <= 2.0**-126).all()


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_the_dtype_stays(dtype: mx.Dtype) -> None:
    x = numbers(-5, 5).astype(dtype)
    assert fast_exp(x).dtype == dtype
    assert mx.allclose(fast_exp(x), mx.exp(x), rtol=0.01).item()


def test_its_gradient_is_itself() -> None:
    x = numbers(-5, 5)
    gradient = mx.grad(lambda x: fast_exp(x).sum())(x)
    np.testing.assert_allclose(gradient, fast_exp(x), rtol=1e-6)


def test_it_pays_where_exp_is_not_vectorized() -> None:
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    assert fast_exp_pays() == (on_cpu and sys.platform == "linux")
