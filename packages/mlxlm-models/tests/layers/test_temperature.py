import math
from typing import Any

import mlx.core as mx
from mlxlm_models.layers.temperature import TemperatureSpec

ONES = mx.ones((2, 3, 4, 5))


class At:
    """A cache that has seen so many tokens."""

    def __init__(self, offset: Any) -> None:
        self.offset = offset


def factor(position: int, shift: int = 0) -> float:
    return 1 + 0.5 * math.log(1 + (position + shift) // 4)


def test_queries_grow_with_the_position() -> None:
    at: Any = At(6)
    for shift in (0, 1):
        scaled = TemperatureSpec(0.5, 4, shift)(ONES, at)
        expected = mx.array([factor(p, shift) for p in range(6, 10)])
        assert mx.allclose(scaled[1, 2, :, 0], expected, atol=1e-6).item()


def test_the_first_length_is_left_alone() -> None:
    assert TemperatureSpec(0.5, 4)(ONES, None) is ONES
    assert TemperatureSpec(0.5, 4, 1)(ONES, None) is not ONES


def test_every_sequence_of_a_batch_has_its_own_positions() -> None:
    at: Any = At(mx.array([0, 6]))
    scaled = TemperatureSpec(0.5, 4)(ONES, at)
    for row, start in enumerate((0, 6)):
        expected = mx.array([factor(p) for p in range(start, start + 4)])
        assert mx.allclose(scaled[row, 0, :, 0], expected, atol=1e-6).item()


def test_padding_before_the_first_token_is_left_alone() -> None:
    at: Any = At(mx.array([-3, 6]))
    assert TemperatureSpec(0.5, 4)(ONES, at)[0].tolist() == ONES[0].tolist()


def test_the_dtype_stays() -> None:
    at: Any = At(6)
    assert TemperatureSpec(0.5, 4)(ONES.astype(mx.bfloat16), at).dtype == mx.bfloat16
