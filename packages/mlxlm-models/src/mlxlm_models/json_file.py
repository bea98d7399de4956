"""JSON files whose errors say where."""

import json
from pathlib import Path
from typing import Any

from mlxlm_models.errors import ModelError


def read_json(path: Path, error: type[ModelError]) -> dict[str, Any]:
    """Return the object in `path`, or raise `error` naming file, line and column."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as cause:
        raise error(
            f"{path} is not valid JSON: {cause.msg} at line {cause.lineno}, column {cause.colno}."
        ) from cause
    except UnicodeDecodeError as cause:
        raise error(f"{path} is not UTF-8 text: download it again.") from cause
    except OSError as cause:
        raise error(f"{path} cannot be read ({cause.strerror}).") from cause
    if not isinstance(value, dict):
        raise error(f"{path} holds {type(value).__name__}, an object is needed.")
    return value
