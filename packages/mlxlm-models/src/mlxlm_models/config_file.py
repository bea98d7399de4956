"""config.json of a model directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxlm_models.errors import ConfigError
from mlxlm_models.json_file import read_json
from mlxlm_models.sources.base import is_gguf


def load_config(path: str | Path, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the model config of a directory or `.gguf` file, in Hugging Face's keys.

    `overrides` replaces top-level keys, nested values as a whole. Raises ConfigError.
    """
    path = Path(path)
    if is_gguf(path):
        from mlxlm_models.gguf import read_gguf

        return merge(read_gguf(path).config, overrides)
    file = path / "config.json"
    if not file.is_file():
        raise ConfigError(f"{path} has no config.json: it is not a model directory.")
    return merge(read_json(file, ConfigError), overrides)


def merge(config: dict[str, Any], overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**config, **(overrides or {})}
