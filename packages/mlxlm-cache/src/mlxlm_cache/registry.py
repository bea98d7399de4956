"""Cache classes by the name that prompt-cache files give them."""

from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TypeVar

from mlxlm_cache.base import Cache
from mlxlm_cache.errors import UnknownCache

GROUP = "mlxlm.caches"
"""Entry points of this group, name and class, are registered when first asked for."""

Class = TypeVar("Class", bound=type[Cache])

_classes: dict[str, type[Cache]] = {}


def register_cache(name: str) -> Callable[[Class], Class]:
    """Register the class below under `name`, so that files can hold it.

    Raises ValueError where another class has the name, except that a class may be
    defined again (the same module and qualified name, as when a module is reloaded).
    """

    def register(cls: Class) -> Class:
        other = _classes.get(name, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"the cache name {name!r} is taken by {_described(other)}")
        _classes[name] = cls
        return cls

    return register


def cache_class(name: str) -> type[Cache]:
    """Return the class registered as `name`, or raise UnknownCache."""
    if name not in _classes:
        for entry in entry_points(group=GROUP, name=name):
            register_cache(name)(entry.load())
    if name not in _classes:
        known = sorted({*_classes, *entry_points(group=GROUP).names})
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownCache(
            f"no cache class is registered as {name!r}{hint} (known: {', '.join(known)}). "
            f"Install or import the package that defines it."
        )
    return _classes[name]


def cache_name(cls: type[Cache]) -> str:
    """Return the name that `cls` itself is registered under, or raise UnknownCache."""
    for name, known in _classes.items():
        if known is cls:
            return name
    for entry in entry_points(group=GROUP):
        if entry.value.replace(":", ".") == f"{cls.__module__}.{cls.__qualname__}":
            register_cache(entry.name)(cls)
            return entry.name
    raise UnknownCache(
        f"{_described(cls)} is not registered, so a file could not be loaded again: decorate "
        f'it with @register_cache("{cls.__name__}") or declare an entry point in {GROUP!r}.'
    )


def file_name(cls: type[Cache]) -> str:
    """Return the registered name, or the class's own where it has none."""
    try:
        return cache_name(cls)
    except UnknownCache:
        return cls.__name__


def _described(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
