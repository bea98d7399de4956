import math
from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.layers.rope import DynamicRopeSpec, LongRopeSpec, RopeSpec
from mlxlm_models.layers.rope_settings import RopeSettings


def spec(max_positions: Any = 64, **values: Any) -> Any:
    def fail(key: str, problem: Any) -> Any:
        return ConfigError(f"{key}: {problem}")

    return RopeSettings({"rope_theta": 100.0} | values, 8, max_positions, fail).spec()


def test_default_and_linear() -> None:
    assert spec() == spec(rope_type="default") == RopeSpec(8, 100.0)
    assert spec(type="linear", factor=4) == RopeSpec(8, 100.0, scale=0.25)
    assert spec(partial_rotary_factor=0.5) == RopeSpec(4, 100.0)


def test_dynamic_takes_its_length_from_the_model() -> None:
    expected = DynamicRopeSpec(8, 100.0, factor=2.0, original_length=64)
    assert spec(rope_type="dynamic", factor=2) == expected


def test_llama3_keeps_short_waves_and_slows_long_ones() -> None:
    keys = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    made: Any = spec(rope_type="llama3", **keys, original_max_position_embeddings=64)
    waves = [100.0 ** (i / 8) for i in (0, 2, 4, 6)]
    assert made.freqs[0] == pytest.approx(waves[0])
    assert made.freqs[3] == pytest.approx(8 * waves[3])
    turns = 64 / (2 * math.pi * waves[1])
    blend = (turns - 1) / 3
    assert 0 < blend < 1
    assert 1 / made.freqs[1] == pytest.approx(((1 - blend) / 8 + blend) / waves[1])


def test_yarn_magnitude() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    assert spec(**yarn).magnitude == pytest.approx(0.1 * math.log(4) + 1)
    assert spec(**yarn, attention_factor=2.0).magnitude == 2.0
    assert spec(**yarn, mscale=1.0, mscale_all_dim=1.0).magnitude == 1.0


def test_longrope_under_its_older_name() -> None:
    keys = {
        "short_factor": [1, 1, 1, 1],
        "long_factor": [2, 2, 2, 4],
        "original_max_position_embeddings": 16,
    }
    made = spec(rope_type="longrope", **keys)
    assert made == spec(type="su", **keys)
    assert type(made) is LongRopeSpec
    assert made.freqs is not None
    assert made.long_freqs[3] == pytest.approx(4 * made.freqs[3])
    assert made.magnitude == pytest.approx(math.sqrt(1 + math.log(4) / math.log(16)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_type": "spiral"}, "rope_type: 'spiral' is none of default, dynamic, linear"),
        ({"rope_type": "linear"}, "factor: the rope_type needs it"),
        ({"rope_type": "linear", "factor": 0}, "factor: 0.0 is not above zero"),
        ({"rope_type": "linear", "factor": "2"}, "factor: '2' is not a number"),
        ({"rope_type": "dynamic", "factor": 2, "max_positions": None}, "max_position_embeddings"),
        ({"rope_type": "llama3", "factor": 2.0}, "low_freq_factor"),
        ({"rope_type": "longrope", "short_factor": [1]}, "short_factor: .* list of 4 numbers"),
        ({"partial_rotary_factor": 0.1}, "partial_rotary_factor: it makes 0 rotated features"),
        ({"partial_rotary_factor": 0.4}, "it makes 3 rotated features"),
    ],
)
def test_bad_settings_are_named(values: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec(**values)
