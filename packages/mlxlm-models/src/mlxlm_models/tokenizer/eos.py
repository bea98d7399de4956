"""Which token ids end a text."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mlxlm_models.errors import ConfigError, TokenizerError

EosIds = int | Iterable[int] | None


def as_ids(value: EosIds) -> set[int]:
    """Return the ids of an `eos_token_id` entry: one id, several or none."""
    if value is None:
        return set()
    return {value} if isinstance(value, int) else {int(token) for token in value}


def config_eos_ids(config: Mapping[str, Any]) -> set[int]:
    """Return the EOS ids of a model or generation config, its `text_config` included."""
    text = config.get("text_config")
    nested = config_eos_ids(text) if isinstance(text, Mapping) else set()
    return as_ids(config.get("eos_token_id")) | nested


def directory_eos_ids(directory: Path) -> set[int]:
    """Return the EOS ids of `config.json` and `generation_config.json`, where they exist."""
    ids: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        file = directory / name
        if not file.is_file():
            continue
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ConfigError(f"{file} is not valid JSON: {error}") from error
        if not isinstance(config, dict):
            raise ConfigError(f"{file} must hold a JSON object, not {type(config).__name__}")
        try:
            ids |= config_eos_ids(config)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{file}: eos_token_id must be an id or a list of ids: {error}"
            ) from error
    return ids


def token_id(tokenizer: Any, token: str | int) -> int:
    """Return the id of a token given as its text or its id; TokenizerError if unknown."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    if isinstance(token, str) and token in vocabulary:
        return vocabulary[token]
    if isinstance(token, str) and not token.isdecimal():
        raise TokenizerError(f"{token!r} is not a token of this tokenizer: give a token or its id")
    last = max(vocabulary.values(), default=-1)
    if not 0 <= int(token) <= last:
        raise TokenizerError(f"there is no token {token}: ids go from 0 to {last}")
    return int(token)
