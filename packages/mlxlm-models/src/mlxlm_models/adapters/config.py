"""adapter_config.json."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from mlxlm_models.errors import ConfigError
from mlxlm_models.json_file import read_json

FineTuneType = Literal["lora", "dora", "full"]

FILE = "adapter_config.json"


@dataclass(frozen=True)
class AdapterConfig:
    """`keys`: module paths, within a layer or whole, that carry an adapter; None for any."""

    fine_tune_type: FineTuneType
    rank: int = 8
    scale: float = 20.0
    dropout: float = 0.0
    keys: tuple[str, ...] | None = None


def read_adapter_config(directory: Path) -> AdapterConfig:
    """Read the settings beside an adapter's weights. Raises ConfigError."""
    file = directory / FILE
    if not file.is_file():
        raise ConfigError(f"{directory} has no {FILE}: it is not an adapter directory.")
    settings = read_json(file, ConfigError)
    if "peft_type" in settings:
        raise ConfigError(f"{file} is a PEFT adapter's: convert it to MLX's format first.")
    kind = settings.get("fine_tune_type", "lora")
    if kind not in ("lora", "dora", "full"):
        raise ConfigError(f"{file}: fine_tune_type {kind!r} is unknown: lora, dora or full.")
    if kind == "full":
        return AdapterConfig("full")
    parameters = settings.get("lora_parameters")
    if not isinstance(parameters, dict):
        raise ConfigError(f"{file} lacks lora_parameters (rank, scale, dropout, keys).")
    rank, scale = parameters.get("rank"), parameters.get("scale")
    if not isinstance(rank, int) or rank < 1:
        raise ConfigError(f"{file}: lora_parameters.rank is {rank!r}, a positive number is needed.")
    if not isinstance(scale, int | float):
        raise ConfigError(f"{file}: lora_parameters.scale is {scale!r}, a number is needed.")
    dropout, keys = parameters.get("dropout", 0.0), parameters.get("keys")
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ConfigError(f"{file}: lora_parameters.dropout is {dropout!r}, not in [0, 1).")
    if keys is not None and not (
        isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    ):
        raise ConfigError(f"{file}: lora_parameters.keys is {keys!r}, a list of names is needed.")
    return AdapterConfig(
        cast(FineTuneType, kind),
        rank,
        float(scale),
        float(dropout),
        tuple(keys) if keys is not None else None,
    )
