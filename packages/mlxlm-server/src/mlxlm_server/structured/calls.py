"""Answers that must be tool calls, as a grammar of the model's own format."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxlm_server.structured.compiled import WHITE_SPACE
from mlxlm_server.structured.grammar import Grammar, GrammarError, quoted

_MOST_CALLS = 32
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class Forced:
    """The answer calls functions: `name` alone, or any where that is None. `several` may come."""

    name: str | None = None
    several: bool = True


@dataclass(frozen=True)
class Layout:
    """How a format writes calls: `start`, calls with `between` in between, `end`.

    In `before`, `{name}` and `{number}` stand for a call's; its arguments follow, then `after`.
    """

    before: str
    after: str
    start: str = ""
    end: str = ""
    between: str = ""
    alone: bool = False
    """What parts calls from each other would end the answer."""


def _object(opening: str, after: str, key: str = "arguments", **more: Any) -> Layout:
    return Layout(f'{opening}{{"name": "{{name}}", "{key}": ', "}" + after, **more)


def _list(start: str, end: str) -> Layout:
    return _object("", "", start=f"{start}[", end=f"]{end}", between=", ")


_LAYOUTS = {
    "json_tools": _object("<tool_call>\n", "\n</tool_call>", between="\n"),
    "longcat": _object("<longcat_tool_call>\n", "\n</longcat_tool_call>", between="\n"),
    "gigachat3": _object("function call<|role_sep|>\n", "", alone=True),
    "llama3_json": _object("", "", "parameters", between="; "),
    "command_a": Layout(
        '{"tool_call_id": "{number}", "tool_name": "{name}", "parameters": ',
        "}",
        start="<|START_ACTION|>[\n    ",
        end="\n]<|END_ACTION|>",
        between=",\n    ",
    ),
    "hunyuan": _list("<tool_calls>\n", "\n</tool_calls>"),
    "internlm": _object("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters"),
    "nemotron": _list("<TOOLCALL>", "</TOOLCALL>"),
    "granite": _list("<|tool_call|>", ""),
    "phi4_mini": _list("<|tool_call|>", "<|/tool_call|>"),
    "mistral": Layout("[TOOL_CALLS]{name}[ARGS]", ""),
    "kimi_k2": Layout(
        "<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        start="<|tool_calls_section_begin|>",
        end="<|tool_calls_section_end|>",
    ),
    "deepseek_v3": Layout(
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        start="<｜tool▁calls▁begin｜>",
        end="<｜tool▁calls▁end｜>",
    ),
    "apertus": Layout('{"{name}": ', "}", "<|tools_prefix|>[", "]<|tools_suffix|>", ", "),
}
_OLDER = {
    "mistral": _list("[TOOL_CALLS] ", ""),
    "deepseek_v3": Layout(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        start="<｜tool▁calls▁begin｜>",
        end="<｜tool▁calls▁end｜>",
        between="\n",
    ),
}


def layout_of(tokenizer: Any) -> Layout:
    """Return how a model writes calls. GrammarError where they can't be forced."""
    parser = tokenizer.tool_parser
    if parser is None:
        raise GrammarError("this model's chat template knows no tools.")
    name = parser.name
    older = (name == "mistral" and "[ARGS]" not in tokenizer.get_vocab()) or (
        name == "deepseek_v3" and "```json" in str(tokenizer.chat_template)
    )
    layout = (_OLDER if older else _LAYOUTS).get(name)
    if layout is None:
        raise GrammarError(
            f"calls can't be forced in this model's format, {name}: use auto. "
            f"They can in {', '.join(_LAYOUTS)}."
        )
    return layout


def calls_grammar(
    tokenizer: Any, tools: Sequence[Mapping[str, Any]] | None, forced: Forced
) -> Grammar:
    """Return the grammar of an answer that is calls, and has arguments that are of the schemas.

    `tools` as in OpenAI's chat completions. GrammarError says what can't be forced.
    """
    functions = [tool.get("function", tool) for tool in tools or ()]
    if not functions:
        raise GrammarError("there are no tools that could be called.")
    if forced.name is not None:
        functions = [each for each in functions if each.get("name") == forced.name]
        if not functions:
            raise GrammarError(f"there is no tool {forced.name!r}.")
    layout = layout_of(tokenizer)
    added = {str(text): int(token) for text, token in tokenizer.get_added_vocab().items()}
    several = forced.several and not layout.alone
    lines = [_calls(layout, added, several)]
    for i, function in enumerate(functions):
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise GrammarError(f"{name!r} is no name: it has letters, digits, _, . and - only.")
        for rule, number in (("first", '"0"'), ("more", "NUMBER"))[: 1 + several]:
            before = _parts(layout.before.replace("{name}", name), added, number)
            lines.append(_rule(f"{rule}_{i}", before, f"args_{i}", _parts(layout.after, added)))
        lines.append(f"args_{i}: %json {json.dumps(_schema(function), ensure_ascii=False)}")
    for rule in ("first", "more")[: 1 + several]:
        lines.append(f"{rule}: " + " | ".join(f"{rule}_{i}" for i in range(len(functions))))
    if several:
        lines.append("NUMBER: /[1-9][0-9]?/")
    return Grammar("lark", "\n".join(lines))


def _calls(layout: Layout, added: Mapping[str, int], several: bool) -> str:
    between = " ".join([*_parts(layout.between, added), "more"])
    more = f"({between}){{0,{_MOST_CALLS - 1}}}" if several else ""
    return _rule("start", _parts(layout.start, added), "first", more, _parts(layout.end, added))


def _rule(name: str, *parts: str | list[str]) -> str:
    flat = [each for part in parts for each in ([part] if isinstance(part, str) else part)]
    return f"{name}: " + " ".join(filter(None, flat))


def _parts(text: str, added: Mapping[str, int], number: str = "") -> list[str]:
    """Return Lark for a text: what the vocabulary has as a token of its own is that token."""
    marks = sorted((mark for mark in added if mark in text), key=len, reverse=True)
    split = re.split("(" + "|".join(map(re.escape, [*marks, "{number}"])) + ")", text)
    terms = []
    for piece in filter(None, split):
        if piece == "{number}":
            terms.append(number)
        else:
            terms.append(f"<[{added[piece]}]>" if piece in added else quoted(piece))
    return terms


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    schema = function.get("parameters") or _NOTHING
    if not isinstance(schema, Mapping):
        raise GrammarError(f"the parameters of {function['name']} are no JSON schema.")
    kind = schema.get("type", "object")
    if kind != "object":
        raise GrammarError(f"the parameters of {function['name']} are of type {kind!r}: object.")
    return {**schema, "type": "object", "x-guidance": {"whitespace_pattern": WHITE_SPACE}}
