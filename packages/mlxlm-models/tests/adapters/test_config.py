import json
from pathlib import Path
from typing import Any

import pytest
from mlxlm_models.adapters import AdapterConfig, read_adapter_config
from mlxlm_models.errors import ConfigError


def write(directory: Path, **settings: Any) -> Path:
    (directory / "adapter_config.json").write_text(json.dumps(settings))
    return directory


def test_reads_the_settings_of_a_training_run(tmp_path: Path) -> None:
    parameters = {"rank": 8, "scale": 20.0, "dropout": 0.1, "keys": ["self_attn.q_proj"]}
    config = read_adapter_config(write(tmp_path, num_layers=4, lora_parameters=parameters))
    assert config == AdapterConfig("lora", 8, 20.0, 0.1, ("self_attn.q_proj",))


def test_full_needs_no_lora_parameters(tmp_path: Path) -> None:
    assert read_adapter_config(write(tmp_path, fine_tune_type="full")).fine_tune_type == "full"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fine_tune_type": "prefix"}, "'prefix' is unknown"),
        ({"fine_tune_type": "lora"}, "lacks lora_parameters"),
        ({"lora_parameters": {"scale": 1.0}}, "rank is None"),
        ({"lora_parameters": {"rank": 4}}, "scale is None"),
        ({"lora_parameters": {"rank": 4, "scale": 1, "dropout": 2}}, "dropout is 2"),
        ({"lora_parameters": {"rank": 4, "scale": 1, "keys": "q"}}, "keys is 'q'"),
        ({"peft_type": "LORA", "r": 8}, "PEFT"),
    ],
)
def test_unusable_settings_are_named(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_adapter_config(write(tmp_path, **settings))
