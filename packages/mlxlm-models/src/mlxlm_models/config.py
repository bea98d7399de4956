"""Typed reading of `config.json`: what a family needs, checked once."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from mlxlm_models.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Base of every family's config: fields are the keys of `config.json`.

    `aliases` maps other public spellings of a key to the field's name. Subclasses check
    what the types cannot say in `__post_init__`, through `self.fail`.
    """

    aliases: ClassVar[Mapping[str, str]] = {}

    model_type: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Pick this config's keys out of `data`; unknown keys are none of its business.

        `null` is None where the key may be None, and else the default. ConfigError for a
        missing or mistyped key.
        """
        name = data.get("model_type", "?")
        known = {cls.aliases.get(key, key): value for key, value in data.items()}
        # A key under its own name wins over an alias of it.
        known.update((key, value) for key, value in data.items() if key not in cls.aliases)
        hints = get_type_hints(cls)
        values: dict[str, Any] = {}
        for field in fields(cls):
            value = known.get(field.name, MISSING)
            if value is None and not _fits(None, hints[field.name]):
                value = MISSING
            if value is not MISSING:
                values[field.name] = _checked(value, hints[field.name], field.name, name)
            elif field.default is MISSING and field.default_factory is MISSING:
                raise ConfigError(
                    f"The config of model_type {name!r} lacks {field.name!r}: "
                    f"add it to config.json, or fetch the file again."
                )
        return cls(**values)

    def fail(self, key: str, problem: str) -> ConfigError:
        """Return the error to raise when the value of `key` cannot be used."""
        return ConfigError(
            f"The config of model_type {self.model_type!r} has an unusable {key!r}: {problem}."
        )


def _checked(value: Any, hint: Any, key: str, model_type: str) -> Any:
    """Return `value` as `hint` wants it; 8 passes for a float and 144.0 for an int."""
    if _fits(value, hint):
        return value
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not isinstance(value, bool) and isinstance(value, int | float):
        if float in options:
            return float(value)
        if int in options and float(value).is_integer():
            return int(value)
    wanted = " or ".join(_spell(option) for option in options if option is not NoneType)
    raise ConfigError(
        f"The config of model_type {model_type!r} has {key!r} = {value!r}, which is not {wanted}."
    )


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if origin is list:
        (item,) = get_args(hint)
        return isinstance(value, list) and all(_fits(entry, item) for entry in value)
    if hint in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, origin or hint)


def _spell(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
