"""Calls written in Python: `[name(key=value), …]`."""

import ast
import re
import warnings
from typing import Any

from .call import ToolCall, ToolCallError, Tools, make_call, only_known, parameters_schema

_LINE_END = re.compile(r"\)\s*\n")
_JSON_NAMES = {"true": True, "false": False, "null": None}


def python_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """Calls with literal arguments. Ones without a name take the schema's, in its order."""
    tree = _parse(body)
    nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
    if not nodes:
        raise ToolCallError("an empty list of tool calls")
    try:
        return [_call(node, tools) for node in nodes]
    except RecursionError as error:
        raise ToolCallError("a tool call is nested too deep") from error


def known_python_calls(body: str, tools: Tools | None) -> list[ToolCall]:
    """As `python_calls`, where an answer may be a list itself: the functions must be known."""
    return only_known(python_calls(body, tools), tools)


def python_lines(body: str, tools: Tools | None) -> list[ToolCall]:
    """Calls on lines of their own (Olmo 3)."""
    return python_calls("[" + _LINE_END.sub("),\n", body.strip()) + "]", tools)


def python_literal(text: str) -> Any:
    """Return a literal's value, `true`, `false` and `null` included; ToolCallError."""
    try:
        return _literal(_parse(text))
    except RecursionError as error:
        raise ToolCallError("a value is nested too deep") from error


def _parse(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolCallError(f"a tool call is no Python: {error}") from error


def _call(node: ast.expr, tools: Tools | None) -> ToolCall:
    if not isinstance(node, ast.Call):
        raise ToolCallError("a tool call is no function call")
    name = ast.unparse(node.func)
    arguments: dict[str, Any] = {}
    if node.args:
        keys = list(parameters_schema(name, tools).get("properties") or ())
        if len(node.args) > len(keys):
            raise ToolCallError(f"arguments of {name!r} without names")
        arguments = {key: _literal(value) for key, value in zip(keys, node.args, strict=False)}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ToolCallError(f"an argument of {name!r} has no name of its own")
        arguments[keyword.arg] = _literal(keyword.value)
    return make_call(name, arguments)


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _literal(value) for key, value in zip(keys, values, strict=True)}
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ToolCallError(f"no Python literal: {error}") from error


def _key(node: ast.expr | None) -> str:
    key = _literal(node) if node is not None else None
    if not isinstance(key, str):
        raise ToolCallError("a key in a tool call is no string")
    return key
