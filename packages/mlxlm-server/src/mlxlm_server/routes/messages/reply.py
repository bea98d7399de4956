"""What Anthropic's clients get: a message, or the events that build it up."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mlxlm_server import sse
from mlxlm_server.answer import Answer
from mlxlm_server.blocks import Began, Block, Blocks, Change, Grew
from mlxlm_server.running import Run

PING = sse.encoded({"type": "ping"}, "ping")


class Text(BaseModel):
    type: Literal["text"] = "text"
    text: str


class Thinking(BaseModel):
    """`signature` is empty: nothing checks a block that comes back."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = ""


class ToolUse(BaseModel):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]


class Usage(BaseModel):
    """`input_tokens` are those that were computed; with those read from the cache they are all."""

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens: int


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class MessageReply(BaseModel):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Annotated[Text | Thinking | ToolUse, Field(discriminator="type")]]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage


class Writer:
    """Writes one run's only answer."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._answer = run.answers[0]
        self._blocks = Blocks()

    async def whole(self) -> MessageReply:
        async with aclosing(self._run.pieces()) as pieces:
            async for _, _, new, _ in pieces:
                for _ in self._blocks.feed(new):
                    pass
        return self._message([_content(block) for block in self._blocks.done])

    async def chunks(self) -> AsyncIterator[bytes]:
        begun = False
        async with aclosing(self._run.pieces()) as pieces:
            async for _, _, new, _ in pieces:
                if not begun:
                    begun = True
                    yield _event("message_start", message=self._message([]).model_dump())
                    yield PING
                for change in self._blocks.feed(new):
                    for event in _events(change):
                        yield event
        for change in self._blocks.close():
            for event in _events(change):
                yield event
        reason, stop = _stop(self._answer)
        delta = {"stop_reason": reason, "stop_sequence": stop}
        yield _event("message_delta", delta=delta, usage=self._usage().model_dump())
        yield _event("message_stop")

    def _message(self, content: list[Text | Thinking | ToolUse]) -> MessageReply:
        reason, stop = _stop(self._answer)
        return MessageReply(
            id=f"msg_{self._run.id}",
            model=self._run.loaded.name,
            content=content,
            stop_reason=reason,
            stop_sequence=stop,
            usage=self._usage(),
        )

    def _usage(self) -> Usage:
        return Usage(
            input_tokens=self._run.prompt_tokens - self._run.cached,
            cache_read_input_tokens=self._run.cached,
            output_tokens=self._run.completion_tokens,
        )


def _stop(answer: Answer) -> tuple[StopReason | None, str | None]:
    if answer.finish_reason == "stop" and answer.stop_text is not None:
        return "stop_sequence", answer.stop_text
    reasons: dict[str | None, StopReason | None] = {
        None: None,
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
    }
    return reasons[answer.finish_reason], None


def _content(block: Block) -> Text | Thinking | ToolUse:
    if block.kind == "text":
        return Text(text=block.text)
    if block.kind == "reasoning":
        return Thinking(thinking=block.text)
    return ToolUse(id=block.id, name=block.name, input=json.loads(block.text or "{}"))


_DELTAS = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


def _events(change: Change) -> list[bytes]:
    block = change.block
    if isinstance(change, Began):
        empty = _content(Block(block.kind, block.index, name=block.name, id=block.id))
        content = empty.model_dump()
        return [_event("content_block_start", index=block.index, content_block=content)]
    if isinstance(change, Grew):
        kind, name = _DELTAS[block.kind]
        return [_delta(block, {"type": kind, name: change.text})]
    signed = [_delta(block, {"type": "signature_delta", "signature": ""})]
    end = _event("content_block_stop", index=block.index)
    return [*(signed if block.kind == "reasoning" else []), end]


def _delta(block: Block, delta: dict[str, str]) -> bytes:
    return _event("content_block_delta", index=block.index, delta=delta)


def _event(kind: str, **fields: Any) -> bytes:
    return sse.encoded({"type": kind, **fields}, kind)
