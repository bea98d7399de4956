"""A tool call, and what the caller said about its tools."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxlm_models.errors import TokenizerError

Tools = Sequence[Mapping[str, Any]]
"""As in OpenAI's API: `{"type": "function", "function": {"name", "parameters", …}}`, or the inner
mapping alone."""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant)
_SPACE = re.compile(r"\s*+")


class ToolCallError(TokenizerError):
    """A text is not a tool call of the format that its model writes."""


@dataclass(frozen=True)
class ToolCall:
    """`arguments` is a JSON object; `id` is what the model wrote, where its format has one."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text that is valid UTF-8."""
        return to_json(self.arguments)

    def to_dict(self) -> dict[str, Any]:
        """Return `{"name", "arguments"}`, and `"id"` where there is one."""
        call: dict[str, Any] = {} if self.id is None else {"id": self.id}
        return call | {"name": self.name, "arguments": self.arguments}


def make_call(name: object, arguments: object, id: object = None) -> ToolCall:
    """Return a call whose parts have been checked; ToolCallError where one can't be in JSON."""
    if not isinstance(name, str) or not name.strip() or not _encodable(name):
        raise ToolCallError(f"a tool call names no function: {_short(name)}")
    if isinstance(arguments, str):  # some models write the object as a JSON string
        arguments = from_json(arguments) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ToolCallError(f"the arguments of {name!r} are no object: {_short(arguments)}")
    to_json(arguments)
    known = id if isinstance(id, str) and id and _encodable(id) else None
    return ToolCall(name.strip(), arguments, known)


def from_json(text: str) -> Any:
    """Return a JSON value, control characters in strings allowed; ToolCallError."""
    values = json_values(text)
    if len(values) != 1:
        raise ToolCallError(f"not one JSON value but {len(values)}: {_short(text)}")
    return values[0]


def json_values(text: str) -> list[Any]:
    """Return JSON values that follow each other, as `from_json` does."""
    values, at = [], after_space(text, 0)
    try:
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            values.append(value)
            at = after_space(text, end)
    except (ValueError, RecursionError) as error:
        raise ToolCallError(f"a tool call is no JSON ({error}): {_short(text)}") from error
    return values


def after_space(text: str, at: int) -> int:
    """Return the place of the first character from `at` on that is no white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def to_json(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolCallError(f"no JSON value: {error}") from error
    return text if _encodable(text) else json.dumps(value, allow_nan=False)


def tool_functions(tools: Tools | None) -> dict[str, Mapping[str, Any]]:
    """Return each function's description by its name; tools that have none are left out."""
    functions: dict[str, Mapping[str, Any]] = {}
    for tool in tools or ():
        inner = tool.get("function")
        function = inner if isinstance(inner, Mapping) else tool
        if isinstance(name := function.get("name"), str):
            functions[name] = function
    return functions


def parameters_schema(name: str, tools: Tools | None) -> Mapping[str, Any]:
    """Return the JSON schema of a function's arguments, empty where it is unknown."""
    function = tool_functions(tools).get(name, {})
    schema = function.get("parameters") or function.get("input_schema")
    return schema if isinstance(schema, Mapping) else {}


def only_known(calls: list[ToolCall], tools: Tools | None) -> list[ToolCall]:
    """Return the calls; ToolCallError where one is of a function that is not among the tools."""
    known = tool_functions(tools)
    for call in calls:
        if tools is not None and call.name not in known:
            raise ToolCallError(f"there is no function {call.name!r}")
    return calls


def _encodable(text: str) -> bool:
    """Lone surrogates can't be sent as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _short(value: object) -> str:
    shown = repr(value) if not isinstance(value, dict | list) else type(value).__name__
    return shown if len(shown) <= 80 else shown[:77] + "..."
