"""Calls written as tags, whose arguments are bare text typed by the tool's schema."""

import re
from typing import Any

from .call import (
    ToolCall,
    ToolCallError,
    Tools,
    from_json,
    make_call,
    parameters_schema,
    tool_functions,
)
from .typed import typed_argument

_DSML = "｜DSML｜"
_DSML_PARAMETER = re.compile(
    rf'\s*<{_DSML}parameter name="([^"\n]+)"(?: string="(true|false)")?>'
    rf"(.*?)</{_DSML}parameter>\s*",
    re.DOTALL,
)

_XTML_ARGUMENT = re.compile(
    r"\s*<\|open\|>(argument|json) ([^<>]*)<\|sep\|>(.*?)<\|close\|>\1<\|sep\|>\s*", re.DOTALL
)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class TagCalls:
    """Functions and their parameters, each in a tag that gives its name: `<function={}>`.

    `framed`: the format puts values on lines of their own.
    """

    def __init__(self, function: str, parameter: str, *, framed: bool = False) -> None:
        self._function = re.compile(_opening(function))
        self._function_end = re.compile(rf"\s*{_closing(function)}\s*")
        self._parameter = re.compile(rf"{_opening(parameter)}(.*?){_closing(parameter)}", re.DOTALL)
        self._framed = framed

    def __call__(self, body: str, tools: Tools | None) -> list[ToolCall]:
        calls, at = [], 0
        while at < len(body):
            opened = self._function.match(body, at)
            if opened is None:
                raise ToolCallError("a tool call has text beside its functions")
            name = opened[1].strip()
            schema = parameters_schema(name, tools)
            arguments, at = {}, opened.end()
            while (match := self._parameter.match(body, at)) is not None:
                key, at = match[1].strip(), match.end()
                text = _unframed(match[2], each=self._framed)
                arguments[key] = typed_argument(text, key, schema)
            closed = self._function_end.match(body, at)
            if closed is None:
                raise ToolCallError("a function in a tool call has no end, or text inside")
            calls.append(make_call(name, arguments))
            at = closed.end()
        if not calls:
            raise ToolCallError("no function in a tool call")
        return calls


def _opening(tag: str) -> str:
    """Return the pattern of `<tag …{}…>`, whose group is the name."""
    before, after = map(re.escape, tag.split("{}"))
    return rf'\s*{before}([^<>"\n]+){after}'


def _closing(tag: str) -> str:
    return "</" + re.split(r"[=\s]", tag.removeprefix("<"), maxsplit=1)[0] + ">"


framed_function_calls = TagCalls("<function={}>", "<parameter={}>", framed=True)
"""Qwen3-Coder."""
function_calls = TagCalls("<function={}>", "<parameter={}>")
"""Seed."""
invoke_calls = TagCalls('<invoke name="{}">', '<parameter name="{}">')
"""MiniMax M2."""


def dsml_call(body: str, tools: Tools | None) -> list[ToolCall]:
    """What follows `<｜DSML｜invoke name="`: each parameter says if it is a string (V3.2)."""
    name, separator, rest = body.partition('">')
    if not separator:
        raise ToolCallError("a tool call names no function")
    schema = parameters_schema(name, tools)
    arguments: dict[str, Any] = {}
    for key, string, text in _pieces(_DSML_PARAMETER, rest):
        if string == "true":
            arguments[key] = text
        else:
            arguments[key] = from_json(text) if string else typed_argument(text, key, schema)
    return [make_call(name, arguments)]


def xtml_call(body: str, tools: Tools | None) -> list[ToolCall]:
    """What follows `<|open|>call `: attributes, then arguments with their types (Kimi K3)."""
    head, _, rest = body.partition("<|sep|>")
    arguments: dict[str, Any] = {}
    for tag, attributes, text in _pieces(_XTML_ARGUMENT, rest):
        said = _attributes(attributes)
        if tag == "json":
            value = from_json(text)
            if not isinstance(value, dict):
                raise ToolCallError("the arguments of a tool call are no object")
            arguments |= value
        elif "key" not in said:
            raise ToolCallError("an argument of a tool call has no name")
        else:
            arguments[said["key"]] = text if said.get("type") == "string" else from_json(text)
    return [make_call(_attributes(head).get("tool"), arguments)]


def _attributes(text: str) -> dict[str, str]:
    """Return `name="value"` pairs, in which `&` and `"` are escaped."""
    return {
        name: value.replace("&quot;", '"').replace("&amp;", "&")
        for name, value in _ATTRIBUTE.findall(text)
    }


class ArgKeys:
    """`name<arg_key>key</arg_key><arg_value>value</arg_value>` (GLM), with `tag` before `arg`."""

    def __init__(self, tag: str = "") -> None:
        key, value = f"{tag}arg_key", f"{tag}arg_value"
        self._first = f"<{key}>"
        self._pair = re.compile(
            rf"\s*<{key}>(.*?)</{key}>\s*<{value}>(.*?)</{value}>\s*", re.DOTALL
        )

    def __call__(self, body: str, tools: Tools | None) -> list[ToolCall]:
        name, separator, rest = body.partition(self._first)
        name = name.strip()
        if not re.fullmatch(r"[^\s<>{}]+", name):
            raise ToolCallError("a tool call names no function")
        if not separator and tools is not None and name not in tool_functions(tools):
            raise ToolCallError(f"a word alone is a call only of a known function: {name!r}")
        schema = parameters_schema(name, tools)
        arguments = {
            key.strip(): typed_argument(_unframed(text), key.strip(), schema)
            for key, text in _pieces(self._pair, separator + rest)
        }
        return [make_call(name, arguments)]


def _pieces(pattern: re.Pattern[str], text: str) -> list[tuple[str, ...]]:
    """Return the groups of matches that cover a text; ToolCallError where they don't."""
    found: list[tuple[str, ...]] = []
    at = 0
    while at < len(text) and not text[at:].isspace():
        match = pattern.match(text, at)
        if match is None:
            raise ToolCallError("a tool call has text beside its parameters")
        found.append(tuple(group or "" for group in match.groups()))
        at = match.end()
    return found


def _unframed(text: str, *, each: bool = False) -> str:
    """Drop the line breaks around a value that stands on lines of its own.

    With `each`, also one without the other.
    """
    if each or (len(text) > 1 and text[0] == text[-1] == "\n"):
        return text.removeprefix("\n").removesuffix("\n")
    return text
