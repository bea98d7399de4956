import json
from pathlib import Path

import pytest
from mlxlm_models.config_file import load_config
from mlxlm_models.errors import ConfigError


def test_overrides_replace_nested_values_as_a_whole(tmp_path: Path) -> None:
    config = {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_config(tmp_path) == config
    changed = load_config(tmp_path, {"rope_scaling": {"rope_type": "default"}, "new": 1})
    assert changed == {"model_type": "llama", "rope_scaling": {"rope_type": "default"}, "new": 1}


def test_broken_json_names_file_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{\n  "model_type": "llama",\n  "hidden_size": }\n')
    with pytest.raises(ConfigError, match="line 3, column 18") as error:
        load_config(tmp_path)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"), [(b"[1]", "an object is needed"), (b"\xff\xfe{", "UTF-8")]
)
def test_other_content(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path)


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        load_config(tmp_path)
