import math
from typing import Any

import numpy as np
import pytest
from mlxlm_models.gguf.rope import rope_scaling


def llama3_factors(
    dims: int, theta: float, factor: float, low: float, high: float, length: int
) -> list[float]:
    """What llama.cpp's conversion writes to rope_freqs.weight."""
    factors = []
    for i in range(0, dims, 2):
        wavelength = 2 * math.pi * theta ** (i / dims)
        if wavelength < length / high:
            factors.append(1.0)
        elif wavelength > length / low:
            factors.append(factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("factor", [8.0, 32.0])
@pytest.mark.parametrize("dims", [64, 128])
def test_llama3_settings_are_recovered(factor: float, dims: int) -> None:
    factors = llama3_factors(dims, 500000.0, factor, 1.0, 4.0, 8192)
    settings = rope_scaling({"context_length": 131072}, 500000.0, {"rope_freqs": factors})
    assert settings is not None
    assert settings["rope_type"] == "llama3"
    assert settings["factor"] == factor
    again = llama3_factors(
        dims,
        500000.0,
        settings["factor"],
        settings["low_freq_factor"],
        settings["high_freq_factor"],
        settings["original_max_position_embeddings"],
    )
    np.testing.assert_allclose(again, factors, rtol=1e-4)


def test_other_factors_are_stated_outright() -> None:
    factors = [1.0, 3.0, 2.0, 5.0]
    settings = rope_scaling({"context_length": 128}, 10000.0, {"rope_freqs": factors})
    assert settings == {
        "rope_type": "longrope",
        "long_factor": factors,
        "short_factor": factors,
        "attention_factor": 1.0,
        "original_max_position_embeddings": 128,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 2.0}, None),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 1.0}, None),
        (
            {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
            {"rope_type": "linear", "factor": 8.0},
        ),
        ({"rope.scale_linear": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        (
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 32768,
            },
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
            },
        ),
    ],
)
def test_scaling_in_the_metadata(values: dict[str, Any], expected: Any) -> None:
    assert rope_scaling(values, 10000.0, {}) == expected


def test_all_ones_is_plain_rope() -> None:
    assert rope_scaling({}, 10000.0, {"rope_freqs": [1.0, 1.0]}) is None


def test_phi3_long_and_short_factors() -> None:
    factors = {"rope_factors_long": [4.0, 8.0], "rope_factors_short": [1.0, 1.5]}
    settings = rope_scaling({"rope.scaling.attn_factor": 1.19}, 10000.0, factors)
    assert settings == {
        "rope_type": "longrope",
        "long_factor": [4.0, 8.0],
        "short_factor": [1.0, 1.5],
        "attention_factor": 1.19,
    }
