"""From messages to token ids."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mlxlm_models import common_prefix_length

from mlxlm_server.errors import invalid


@dataclass(frozen=True)
class Prompt:
    """Token ids, and how many of them the conversation's next request will begin with."""

    ids: list[int]
    text: str = ""
    boundary: int | None = None


def render(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    arguments: Mapping[str, Any],
    *,
    boundary: bool,
) -> Prompt:
    """Render a conversation with the model's template; ApiError 400 where there is none."""
    if not tokenizer.has_chat_template:
        raise invalid(
            "This model has no chat template: use /v1/completions, or start the server with "
            "--chat-template or --use-default-chat-template.",
            param="messages",
        )
    given = [plain(message, f"messages[{i}]") for i, message in enumerate(messages)]
    last = given[-1]["role"] == "assistant"
    text: str = tokenizer.apply_chat_template(
        given,
        tools,
        tokenize=False,
        add_generation_prompt=not last,
        continue_final_message=last,
        **arguments,
    )
    ids = encode(tokenizer, text)
    shared = None
    if boundary and len(given) > 1:
        # Another last message shows how far the prompt doesn't depend on it.
        other = [*given[:-1], {**given[-1], "content": "\u2026"}]
        again: str = tokenizer.apply_chat_template(
            other, tools, tokenize=False, add_generation_prompt=not last,
            continue_final_message=last, **arguments,
        )  # fmt: skip
        shared = common_prefix_length(ids, encode(tokenizer, again)) or None
    return Prompt(ids, text, shared)


def encode(tokenizer: Any, text: str, *, special: bool = False) -> list[int]:
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=special)]


def texts_or_ids(
    given: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]],
    tokenizer: Any,
    param: str,
) -> list[list[int]]:
    """Return the token ids of one text or several; ids stay as they are."""
    several: list[Any] = [given] if isinstance(given, str) else list(given)
    if several and isinstance(several[0], int):
        several = [several]
    if not several:
        raise invalid(f"{param}: the list is empty.", param)
    return [
        encode(tokenizer, each, special=True) if isinstance(each, str) else list(each)
        for each in several
    ]


def plain(message: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a message as templates expect it: text as one string, arguments as objects."""
    content = message.get("content")
    result = {name: value for name, value in message.items() if value is not None}
    if isinstance(content, list):
        result["content"] = "".join(_text(part, where) for part in content)
    elif content is None:
        result["content"] = ""
    # Under either name (R35); templates look for the first.
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        result["reasoning_content"] = result["reasoning"] = reasoning
    if result["role"] == "developer":
        result["role"] = "system"
    if calls := message.get("tool_calls"):
        result["tool_calls"] = [_call(call) for call in calls]
    return result


def _text(part: Mapping[str, Any], where: str) -> str:
    if part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise invalid(
            f"{where}.content has a part of type {part.get('type')!r}: only text is understood.",
            param=where,
        )
    return str(part["text"])


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    if isinstance(function.get("arguments"), str):
        with suppress(ValueError):  # whatever the model wrote: the template shows it as it is
            function["arguments"] = json.loads(function["arguments"] or "{}")
    return {**call, "function": function}
