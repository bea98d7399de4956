"""What Anthropic's clients send, and the conversation that it means."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from mlxlm_server.conversation import Conversation
from mlxlm_server.errors import invalid
from mlxlm_server.options import Drawing, Fields


class Cacheable(Fields):
    """`cache_control` is taken and means nothing: every prefix is cached."""

    cache_control: dict[str, Any] | None = None


class TextBlock(Cacheable):
    type: Literal["text"]
    text: str
    citations: list[Any] | None = None


class ThinkingBlock(Fields):
    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class ToolUseBlock(Cacheable):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(Cacheable):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock] | None = None
    is_error: bool = False


Block = Annotated[
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock, Field(discriminator="type")
]


class Message(Fields):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Cacheable):
    """A tool that the client runs; there are none that the server would run."""

    type: Literal["custom"] | None = None
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    input_schema: dict[str, Any]


class ToolChoice(Fields):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class ThinkingEnabled(Fields):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1)]


class ThinkingSwitch(Fields):
    type: Literal["disabled", "adaptive"]


class Asked(Fields):
    """What a message and a count of its tokens have in common."""

    model: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)]
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Annotated[ThinkingEnabled | ThinkingSwitch, Field(discriminator="type")] | None = None

    def conversation(self) -> Conversation:
        """Return it in the terms of chat completions."""
        self._check()
        messages = [{"role": "system", "content": _text(self.system)}] if self.system else []
        names: dict[str, str] = {}
        for message in self.messages:
            messages += _messages(message, names)
        choice, thinking = self.tool_choice, self.thinking
        tools = [] if choice is not None and choice.type == "none" else self.tools or []
        return Conversation(
            messages=messages,
            tools=[_tool(tool) for tool in tools],
            thinking=None if thinking is None else thinking.type != "disabled",
            reasoning_budget=(
                thinking.budget_tokens if isinstance(thinking, ThinkingEnabled) else None
            ),
            budget_param="thinking.budget_tokens",
        )

    def _check(self) -> None:
        choice = self.tool_choice
        if choice is None:
            return
        if choice.type in ("any", "tool"):
            raise invalid("tool_choice can be auto or none on this server.", "tool_choice")
        if choice.disable_parallel_tool_use and choice.type != "none":
            raise invalid(
                "tool_choice.disable_parallel_tool_use is not supported: leave it out.",
                "tool_choice",
            )


class CountRequest(Asked):
    pass


class MessagesRequest(Asked, Drawing):
    """Anthropic's fields, and mlxlm's for sampling beyond them."""

    max_tokens: Annotated[int, Field(ge=0)]
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    n: Literal[1] = 1

    @property
    def stops(self) -> list[str]:
        return [*super().stops, *(self.stop_sequences or [])]


def _messages(message: Message, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a message, or several where it has results of tools. `names` are those by id."""
    if isinstance(message.content, str):
        yield {"role": message.role, "content": message.content}
        return
    for kind in {type(block) for block in message.content}:
        if message.role not in _ROLES[kind]:
            raise invalid(
                f"messages: a {message.role} message can't have a block like {kind.__name__}.",
                "messages",
            )
    if message.role == "assistant":
        yield _assistant(message.content, names)
        return
    texts: list[TextBlock] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            texts.append(block)
        elif isinstance(block, ToolResultBlock):
            if texts:
                yield {"role": message.role, "content": _text(texts)}
                texts = []
            yield _result(block, names)
    if texts or not message.content:
        yield {"role": message.role, "content": _text(texts)}


_ROLES: dict[type, tuple[str, ...]] = {
    TextBlock: ("user", "assistant", "system"),
    ThinkingBlock: ("assistant",),
    ToolUseBlock: ("assistant",),
    ToolResultBlock: ("user",),
}


def _assistant(blocks: Sequence[Block], names: dict[str, str]) -> dict[str, Any]:
    calls = []
    for block in blocks:
        if isinstance(block, ToolUseBlock):
            names[block.id] = block.name
            function = {"name": block.name, "arguments": block.input}
            calls.append({"id": block.id, "type": "function", "function": function})
    thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    made: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        made["reasoning_content"] = "\n\n".join(thoughts)
    if calls:
        made["tool_calls"] = calls
    return made


def _result(block: ToolResultBlock, names: dict[str, str]) -> dict[str, Any]:
    if block.tool_use_id not in names:
        raise invalid(
            f"messages: no tool_use before has the id {block.tool_use_id!r} of this tool_result.",
            "messages",
        )
    text = _text(block.content or "")
    return {
        "role": "tool",
        "tool_call_id": block.tool_use_id,
        "name": names[block.tool_use_id],
        "content": f"Error: {text}" if block.is_error else text,
    }


def _text(content: str | list[TextBlock]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content)


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    return {"type": "function", "function": function}
