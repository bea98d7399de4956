"""Calls as Gemma writes them: `call:name{key:value}`, strings between marks of their own."""

import re
from collections.abc import Mapping
from typing import Any

from .call import (
    ToolCall,
    ToolCallError,
    Tools,
    after_space,
    from_json,
    make_call,
    parameters_schema,
)
from .typed import typed_argument

_HEAD = re.compile(r"\s*call:\s*([^\s{}]+?)\s*(?=\{)")
_KEY = re.compile(r"\s*([^\s:{}\[\],]+)\s*:\s*")
_BARE = re.compile(r"[^,{}\[\]]*")
_DEPTH = 64


class GemmaCalls:
    """`mark` opens and closes a string: `<|"|>` (Gemma 4) or `<escape>` (FunctionGemma)."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __call__(self, body: str, tools: Tools | None) -> list[ToolCall]:
        calls, at = [], 0
        while body[at:].strip():
            head = _HEAD.match(body, at)
            if head is None:
                raise ToolCallError("a tool call names no function")
            reader = _Reader(body, self._mark, parameters_schema(head[1], tools))
            arguments, at = reader.value(head.end(), 0)
            calls.append(make_call(head[1], arguments))
        if not calls:
            raise ToolCallError("no function in a tool call")
        return calls


class _Reader:
    def __init__(self, text: str, mark: str, schema: Mapping[str, Any]) -> None:
        self._text = text
        self._mark = mark
        self._schema = schema

    def value(self, at: int, depth: int, key: str = "") -> tuple[Any, int]:
        """Return the value that begins at a place, and where it ends."""
        if depth > _DEPTH:
            raise ToolCallError("a tool call is nested too deep")
        at = after_space(self._text, at)
        text = self._text
        if text.startswith(self._mark, at):
            return self._string(at)
        if text.startswith("{", at):
            return self._object(at + 1, depth)
        if text.startswith("[", at):
            return self._list(at + 1, depth)
        match = _BARE.match(text, at)
        bare = match.group().strip() if match else ""
        if not bare or match is None:
            raise ToolCallError(f"a value is missing in a tool call ({key or 'unnamed'})")
        if bare.startswith('"'):
            return from_json(bare), match.end()
        schema = self._schema if depth == 1 else {}
        return typed_argument(bare, key, schema), match.end()

    def _string(self, at: int) -> tuple[str, int]:
        begin = at + len(self._mark)
        end = self._text.find(self._mark, begin)
        if end < 0:
            raise ToolCallError("a string in a tool call has no end")
        return self._text[begin:end], end + len(self._mark)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = after_space(self._text, at)
        while not self._text.startswith("}", at):
            key, at = self._key(at)
            found[key], at = self.value(at, depth + 1, key)
            at = self._comma(at, "}")
        return found, at + 1

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = after_space(self._text, at)
        while not self._text.startswith("]", at):
            value, at = self.value(at, depth + 2)
            found.append(value)
            at = self._comma(at, "]")
        return found, at + 1

    def _key(self, at: int) -> tuple[str, int]:
        if self._text.startswith(self._mark, at):
            key, at = self._string(at)
            at = after_space(self._text, at)
            if not self._text.startswith(":", at):
                raise ToolCallError("a key in a tool call has no value")
            return key, at + 1
        match = _KEY.match(self._text, at)
        if match is None:
            raise ToolCallError("a key is missing in a tool call")
        return match[1].strip('"'), match.end()

    def _comma(self, at: int, closing: str) -> int:
        at = after_space(self._text, at)
        if self._text.startswith(",", at):
            return after_space(self._text, at + 1)
        if not self._text.startswith(closing, at):
            raise ToolCallError(f"{closing!r} is missing in a tool call")
        return at
