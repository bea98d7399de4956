from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def create(golden: Any, **changes: Any) -> Any:
    return get_architecture("step3p5").create(golden("step3p5").config | changes)


@pytest.mark.parametrize("key", ["rope_theta", "swiglu_limits"])
def test_lists_have_an_entry_for_each_layer(key: str, golden: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{key!r}: it has 1 of 3 layers"):
        create(golden, **{key: [1.0]})


def test_other_settings_name_heads_and_groups(golden: Any) -> None:
    with pytest.raises(ConfigError, match=r"'attention_other_setting': sliding_attention layers"):
        create(golden, attention_other_setting={"num_attention_heads": 6})


def test_the_converted_layout_is_known_from_the_public_one(golden: Any) -> None:
    """Converted checkpoints hold 1 + w for norms, public ones w."""
    data = golden("step3p5")
    arch = get_architecture("step3p5")
    _, config = arch.create(data.config)
    converted = arch.sanitize(data.weights(), config)
    name = "model.norm.weight"
    assert mx.allclose(converted[name], data.weights()[name] + 1).item()
    again = arch.sanitize(converted, config)
    assert again.keys() == converted.keys()
    assert mx.array_equal(again[name], converted[name]).item()
