"""`/v1/chat/completions`: the next message of a conversation."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from mlxlm_models import ArgumentsDelta, ReasoningDelta, TextDelta
from pydantic import BaseModel, ConfigDict, Field

from mlxlm_server import sse
from mlxlm_server.answer import Answer, Piece, TokenRecord
from mlxlm_server.conversation import Conversation, begin
from mlxlm_server.errors import invalid
from mlxlm_server.options import Drawing, check_fields
from mlxlm_server.running import Run, unless_left, usage
from mlxlm_server.server import server_of
from mlxlm_server.settings import ServerSettings
from mlxlm_server.structured.fields import StructuredFields, of_choice, wanted

router = APIRouter()


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class ChatRequest(Drawing, StructuredFields):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_budget: Annotated[int, Field(ge=0)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def limit(self, settings: ServerSettings) -> int:
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return super().limit(settings)


@router.post("/v1/chat/completions", response_model=None)
async def chat_completions(http: Request, body: ChatRequest) -> Response:
    """Answer a conversation; reasoning and tool calls come apart from the text."""
    settings = server_of(http).settings
    check_fields(body, settings.strict)
    _check(body)
    parallel = body.parallel_tool_calls is not False
    conversation = Conversation(
        messages=[message.model_dump() for message in body.messages],
        tools=None if body.tool_choice == "none" else body.tools,
        arguments=body.chat_template_kwargs or {},
        reasoning_budget=body.reasoning_budget,
        wanted=wanted(body),
        forced=of_choice(body.tool_choice, parallel),
        parallel=parallel,
    )
    logprobs = (body.top_logprobs or "sampled") if body.logprobs else None
    run = await begin(http, body, conversation, logprobs)
    writer = _Writer(run, body)
    if body.stream:
        return await sse.stream(http, writer.chunks(), settings.keepalive)
    return JSONResponse(await unless_left(http, writer.whole()))


def _check(body: ChatRequest) -> None:
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("top_logprobs needs logprobs: true.", "top_logprobs")


class _Writer:
    def __init__(self, run: Run, body: ChatRequest) -> None:
        self._run, self._body = run, body
        self._head = {
            "id": f"chatcmpl-{run.id}",
            "created": int(time.time()),
            "model": run.loaded.name,
        }

    async def chunks(self) -> AsyncIterator[bytes]:
        head = {**self._head, "object": "chat.completion.chunk"}
        begun: set[int] = set()
        async with aclosing(self._run.pieces()) as pieces:
            async for index, answer, new, response in pieces:
                last = response.finish_reason is not None
                if not new and not last and not self._body.logprobs and index in begun:
                    continue
                deltas = [delta_of(piece, answer) for piece in new] or [{}]
                if index not in begun:
                    deltas[0] = {"role": "assistant", "content": "", **deltas[0]}
                    begun.add(index)
                fresh = answer.records[answer.told :]
                answer.told = len(answer.records)
                for place, delta in enumerate(deltas, 1):
                    end = place == len(deltas)
                    choice = {
                        "index": index,
                        "delta": delta,
                        "logprobs": self._logprobs(fresh) if end else None,
                        "finish_reason": answer.finish_reason if end else None,
                    }
                    yield sse.encoded({**head, "choices": [choice]})
        if self._body.include_usage:
            yield sse.encoded({**head, "choices": [], "usage": usage(self._run)})
        yield sse.encoded(sse.DONE)

    async def whole(self) -> dict[str, Any]:
        async with aclosing(self._run.pieces()) as pieces:
            async for _ in pieces:
                pass
        choices = [
            {
                "index": index,
                "message": message_of(answer),
                "logprobs": self._logprobs(answer.records),
                "finish_reason": answer.finish_reason,
            }
            for index, answer in enumerate(self._run.answers)
        ]
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": choices, "usage": usage(self._run)}

    def _logprobs(self, records: list[TokenRecord]) -> dict[str, Any] | None:
        if not self._body.logprobs:
            return None
        return {"content": [self._record(record) for record in records], "refusal": None}

    def _record(self, record: TokenRecord) -> dict[str, Any]:
        top = [self._named(token, logprob) for token, logprob in record.top]
        return {**self._named(record.id, record.logprob), "top_logprobs": top}

    def _named(self, token: int, logprob: float | None) -> dict[str, Any]:
        text = self._run.loaded.tokenizer.decode([token])
        return {"token": text, "logprob": logprob, "bytes": list(text.encode(errors="replace"))}


def delta_of(piece: Piece, answer: Answer) -> dict[str, Any]:
    """Return a piece as OpenAI's delta; reasoning under both of its names (R35)."""
    if isinstance(piece, TextDelta):
        return {"content": piece.text}
    if isinstance(piece, ReasoningDelta):
        return {"reasoning_content": piece.text, "reasoning": piece.text}
    if isinstance(piece, ArgumentsDelta):
        call: dict[str, Any] = {"index": piece.index, "function": {"arguments": piece.json}}
    else:
        function = {"name": piece.name, "arguments": ""}
        call = {"index": piece.index, "id": piece.id, "type": "function", "function": function}
    return {"tool_calls": [call]}


def message_of(answer: Answer) -> dict[str, Any]:
    """Return a whole answer as OpenAI's message."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.reasoning:
        message["reasoning_content"] = message["reasoning"] = answer.reasoning
    calls = answer.calls
    if calls.names:
        message["content"] = answer.text or None
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in zip(calls.ids, calls.names, calls.arguments, strict=True)
        ]
    return message
