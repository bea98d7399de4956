"""Calls that are JSON, under the names that the formats give to their parts."""

import re
from collections.abc import Mapping
from typing import Any

from .call import ToolCall, ToolCallError, Tools, from_json, json_values, make_call, only_known

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_IDS = ("id", "tool_call_id")
_HEADED = re.compile(r"\s*([^\[\]{}\s]+)\s*(?:\[CALL_ID\]([^\[\]{}]*))?(?:\[ARGS\])?\s*(?=\{)")
_KIMI = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?", re.DOTALL)
_FENCE = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL)


def json_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """`{"name": …, "arguments": {…}}`, several of these, or lists (Hermes, Granite, Cohere, …)."""
    items = _items(body)
    if not items:
        raise ToolCallError("an empty list of tool calls")
    return [_json_call(item) for item in items]


def known_json_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """As `json_calls`, where an answer may be JSON itself: the functions must be known."""
    return only_known(json_calls(body, tools), tools)


def action_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """As `json_calls`; that the model answers directly is no call (Command R)."""
    calls = json_calls(body, tools)
    return [c for c in calls if c.name.replace("-", "_") != "directly_answer"]


def keyed_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """`[{"name of the function": {arguments}}, …]` (Apertus)."""
    items = _items(body)
    if not items or not all(isinstance(item, dict) and len(item) == 1 for item in items):
        raise ToolCallError("no list of objects with one function each")
    return [make_call(*pair) for item in items for pair in item.items()]


def mistral_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """A list as of `json_calls`, or `name[ARGS]{…}`, since 2025 with `[CALL_ID]…` before."""
    match = _HEADED.match(body)
    if match is None:
        return json_calls(body, tools)
    return [make_call(match[1], _object(body[match.end() :]), (match[2] or "").strip())]


def kimi_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """`functions.name:0<|tool_call_argument_begin|>{…}`; the head is the id."""
    head, separator, arguments = body.partition("<|tool_call_argument_begin|>")
    match = _KIMI.fullmatch(head.strip())
    if not separator or match is None:
        raise ToolCallError("no <|tool_call_argument_begin|> in a tool call")
    return [make_call(match[1], _object(arguments), head.strip())]


def deepseek_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """`function<｜tool▁sep｜>name` and fenced JSON (V3, R1), or `name<｜tool▁sep｜>{…}` (V3.1)."""
    head, separator, rest = body.partition("<｜tool▁sep｜>")
    if not separator:
        raise ToolCallError("no <｜tool▁sep｜> in a tool call")
    if head.strip() == "function" and not rest.lstrip().startswith("{"):
        name, _, arguments = rest.partition("\n")
        match = _FENCE.fullmatch(arguments)
        return [make_call(name, _object(match[1] if match else arguments))]
    return [make_call(head, _object(rest))]


def _items(body: str) -> list[Any]:
    values = json_values(body)
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _object(text: str) -> Any:
    return from_json(text) if text.strip() else {}


def _json_call(item: object) -> ToolCall:
    if isinstance(item, dict) and isinstance(inner := item.get("function"), dict):
        item = {**item, **inner}
    if not isinstance(item, Mapping):
        raise ToolCallError("a tool call is no object")
    arguments = _first(item, _ARGUMENTS)
    return make_call(_first(item, _NAMES), arguments, _first(item, _IDS))


def _first(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((item[key] for key in keys if key in item), None)
