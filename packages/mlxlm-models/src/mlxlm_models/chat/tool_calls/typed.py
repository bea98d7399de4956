"""Arguments that a format writes as bare text, given the types that the tool's schema says."""

from collections.abc import Iterator, Mapping
from typing import Any

from .call import ToolCallError, from_json, to_json
from .python_bodies import python_literal

_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_WORDS = {"true": True, "false": False, "null": None, "none": None}


def typed_argument(text: str, name: str, schema: Mapping[str, Any]) -> Any:
    """Return an argument's value: of its property's type where the text can be read as that.

    Otherwise, and where the property may be a string only, the text as it is. Arguments that
    the schema doesn't know are JSON values where they read as one.
    """
    properties = schema.get("properties")
    known = properties.get(name) if isinstance(properties, Mapping) else None
    if not isinstance(known, Mapping):
        return _json_or_text(text)
    types = dict.fromkeys(_types(known, schema))
    if not types:
        return _json_or_text(text)
    value = _value(text)
    for type_name in types:
        if type_name != "string" and _is(value, type_name):
            whole = type_name == "integer" and isinstance(value, float)
            return int(value) if whole else value
    return text


def _json_or_text(text: str) -> Any:
    value = _value(text)
    return text if value is _UNREADABLE else value


_UNREADABLE = object()


def _value(text: str) -> Any:
    """Read JSON, or the lists, dicts and names that models write as Python."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for read in (from_json, _python_container):
        try:
            value = read(word)
            to_json(value)
        except ToolCallError:
            continue
        return value
    return _UNREADABLE


def _python_container(text: str) -> Any:
    if not text.startswith(("[", "{")):
        raise ToolCallError("no list and no dict")
    return python_literal(text)


def _is(value: Any, type_name: str) -> bool:
    if isinstance(value, bool) and type_name != "boolean":
        return False
    if type_name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(type_name, ()))


def _types(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the type names that a schema allows; nothing where it doesn't say."""
    if depth > 8:
        return
    declared = schema.get("type")
    if isinstance(declared, str):
        yield declared
    elif isinstance(declared, list):
        yield from (name for name in declared if isinstance(name, str))
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key) or ():
            if isinstance(option, Mapping):
                yield from _types(option, root, depth + 1)
    if isinstance(reference := schema.get("$ref"), str):
        yield from _types(_resolve(reference, root), root, depth + 1)
    if declared is None:
        values = [schema["const"]] if "const" in schema else schema.get("enum") or ()
        for value in values:
            yield "string" if isinstance(value, str) else _type_of(value)


def _type_of(value: Any) -> str:
    return next((name for name in _TYPES if _is(value, name)), "string")


def _resolve(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    place: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        place = place.get(part) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}
