"""What clients of OpenAI's Responses API send, and the conversation that it means."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from mlxlm_server.conversation import Conversation
from mlxlm_server.errors import invalid
from mlxlm_server.options import Drawing, Fields
from mlxlm_server.settings import ServerSettings


class TextPart(Fields):
    type: Literal["input_text", "output_text", "summary_text", "reasoning_text", "text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class Item(Fields):
    id: str | None = None
    status: str | None = None


class InputMessage(Item):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[TextPart]
    phase: str | None = None


class FunctionCall(Item):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionCallOutput(Item):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[TextPart]


class Reasoning(Item):
    type: Literal["reasoning"]
    summary: list[TextPart] = []
    content: list[TextPart] | None = None
    encrypted_content: str | None = None


def _kind(item: Any) -> Any:
    if isinstance(item, Item):
        return getattr(item, "type", None)
    return item.get("type", "message") if isinstance(item, dict) else None


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[Reasoning, Tag("reasoning")],
    Discriminator(_kind),
]


class FunctionTool(Fields):
    """A function that the client runs; there are no tools that the server would run."""

    type: Literal["function"]
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ReasoningOptions(Fields):
    """`effort` is for the chat template; "none" switches reasoning off."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class TextOptions(Fields):
    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesRequest(Drawing):
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    max_output_tokens: Annotated[int, Field(ge=0)] | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    text: TextOptions | None = None
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    top_logprobs: int | None = None
    n: Literal[1] = 1

    def limit(self, settings: ServerSettings) -> int:
        if self.max_output_tokens is not None:
            return self.max_output_tokens
        return super().limit(settings)

    @property
    def keeps(self) -> bool:
        return self.store is not False

    def check(self) -> None:
        """ApiError 400 for what this server doesn't do."""
        if self.background:
            raise invalid("background can't be true on this server.", "background")
        if self.truncation == "auto":
            raise invalid("truncation can only be disabled on this server.", "truncation")
        if self.top_logprobs:
            raise invalid("top_logprobs is not supported: leave it out.", "top_logprobs")
        if self.parallel_tool_calls is False and self.tools:
            raise invalid(
                "parallel_tool_calls can't be false on this server.", "parallel_tool_calls"
            )
        if self.tool_choice not in (None, "auto", "none"):
            raise invalid("tool_choice can be auto or none on this server.", "tool_choice")
        if self.text is not None and (self.text.format or {}).get("type", "text") != "text":
            raise invalid("text.format can only be text on this server.", "text.format")
        # Nothing here is encrypted: reasoning comes as it is.
        beyond = sorted(set(self.include or ()) - {"reasoning.encrypted_content"})
        if beyond:
            raise invalid(f"include: {', '.join(beyond)} is not supported.", "include")

    def messages(self, before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the conversation without instructions; `before` is that of earlier responses."""
        if isinstance(self.input, str):
            return [*map(dict, before), {"role": "user", "content": self.input}]
        return joined(before, [item.model_dump() for item in self.input])

    def conversation(self, messages: Sequence[Mapping[str, Any]]) -> Conversation:
        """Return it in the terms of chat completions."""
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        effort = None if self.reasoning is None else self.reasoning.effort
        return Conversation(
            messages=[*system, *messages],
            tools=None if self.tool_choice == "none" else [_tool(t) for t in self.tools or ()],
            arguments={} if effort is None else {"reasoning_effort": effort},
            thinking=None if effort is None else effort != "none",
            param="input",
        )


def joined(
    before: Sequence[Mapping[str, Any]], items: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Add items to a conversation; what the assistant says in a row is one message there."""
    messages = [dict(message) for message in before]
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls", ())
    }
    for item in items:
        if item["type"] == "function_call_output":
            messages.append(_result(item, names))
        elif item["type"] == "message" and item["role"] != "assistant":
            messages.append({"role": item["role"], "content": _text(item["content"])})
        else:
            _add(_assistant(messages, item["type"]), item, names)
    return messages


def _assistant(messages: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the message that an item of the assistant's belongs to, a new one if need be."""
    last = messages[-1] if messages else {}
    said = bool(last.get("content") or last.get("tool_calls"))
    if last.get("role") != "assistant" or (kind == "reasoning" and said):
        messages.append({"role": "assistant", "content": ""})
    else:
        messages[-1] = dict(last)
    return messages[-1]


def _add(message: dict[str, Any], item: Mapping[str, Any], names: dict[str, str]) -> None:
    if item["type"] == "message":
        message["content"] += _text(item["content"])
    elif item["type"] == "reasoning":
        text = _text(item.get("content") or item.get("summary") or "")
        earlier = message.get("reasoning_content")
        message["reasoning_content"] = f"{earlier}\n\n{text}" if earlier else text
    else:
        names[item["call_id"]] = item["name"]
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        message["tool_calls"] = [*message.get("tool_calls", ()), call]


def _result(item: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    id = item["call_id"]
    if id not in names:
        raise invalid(f"input: no function_call before has the call_id {id!r}.", "input")
    return {
        "role": "tool",
        "tool_call_id": id,
        "name": names[id],
        "content": _text(item["output"]),
    }


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _tool(tool: FunctionTool) -> dict[str, Any]:
    given = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": {k: v for k, v in given.items() if v is not None}}
