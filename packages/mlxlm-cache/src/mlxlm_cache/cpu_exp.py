"""exp from additions, products and shifts.

MLX's CPU backend outside Apple's machines calls the C library's exp for one number at a
time, 15 ns each, but runs simple operations as vector code, 0.2 ns each. Twenty of these
make an exp in 4 ns, which is what attention and activations spend most of their time on.
"""

import math
import sys
from functools import cache
from typing import Any

import mlx.core as mx

from mlxlm_cache.device import backend

LOG2_E = math.log2(math.e)

_ROUND = 1.5 * 2**23  # added to a float32, it leaves the nearest integer in the low bits
# 2^f for |f| <= 1/2, least relative error (1e-7) with the first coefficient at 1, so that
# whole powers are exact, 0 and infinity among them. Highest degree first.
_COEFFICIENTS = (
    0.0013264727271787846,
    0.009671512732880316,
    0.05550733743925823,
    0.2402224208394653,
    0.6931469775982764,
    1.0,
)


@cache
def fast_exp_pays() -> bool:
    """Tell whether MLX's default device computes exp more slowly than `fast_exp`.

    For arrays of 8192 numbers or more; small ones cost what their operations cost to start.
    """
    return backend() == "cpu" and sys.platform == "linux"


def fast_exp(x: mx.array) -> mx.array:
    """Return exp(x) in x's dtype, computed in float32.

    The relative error is 3e-7 and, as for any float32 product, 6e-8 times |x|. Infinities
    and NaN give what exp gives; results below 1e-38 may be off by as much.
    """
    out: mx.array = _with_gradient(x.astype(mx.float32) * LOG2_E)
    return out.astype(x.dtype)


def fast_exp2(x: mx.array) -> mx.array:
    """Return 2 to the power of x; otherwise as `fast_exp`."""
    out: mx.array = _with_gradient(x.astype(mx.float32))
    return out.astype(x.dtype)


def _exp2(x: mx.array) -> mx.array:
    x = mx.clip(x, -127, 128)  # where the exponent's bits mean 0 and infinity
    rounded = x + _ROUND
    fraction = x - (rounded - _ROUND)
    out = fraction * _COEFFICIENTS[0]
    for coefficient in _COEFFICIENTS[1:-1]:
        out = (out + coefficient) * fraction
    out = out + _COEFFICIENTS[-1]
    exponent = rounded.view(mx.int32) << 23
    return (out.view(mx.int32) + exponent).view(mx.float32)


_with_gradient: Any = mx.custom_function(_exp2)


@_with_gradient.vjp  # type: ignore[untyped-decorator]
def _gradient(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent * output * math.log(2)
