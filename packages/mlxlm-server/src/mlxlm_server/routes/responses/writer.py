"""Writes a response, or the events that build it up."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from mlxlm_server import sse
from mlxlm_server.blocks import Began, Block, Blocks, Change, Grew
from mlxlm_server.errors import ApiError
from mlxlm_server.running import Run
from mlxlm_server.settings import ServerSettings

from .reply import (
    Incomplete,
    OutputText,
    ReasoningText,
    ResponseFault,
    ResponseReply,
    Status,
    item,
    item_id,
    status_of,
    usage_of,
)
from .request import ResponsesRequest

_NAMES = {"text": "output_text", "reasoning": "reasoning_text", "call": "function_call_arguments"}


class Writer:
    """Writes one run's only answer; `done` gets the response once it is complete."""

    def __init__(
        self,
        run: Run,
        body: ResponsesRequest,
        settings: ServerSettings,
        done: Callable[[ResponseReply], None],
    ) -> None:
        self._run, self._body, self._settings, self._done = run, body, settings, done
        self._answer = run.answers[0]
        self._blocks = Blocks()
        self._created = int(time.time())
        self._events = 0

    async def whole(self) -> ResponseReply:
        async with aclosing(self._run.pieces()) as pieces:
            async for _, _, new, _ in pieces:
                for _ in self._blocks.feed(new):
                    pass
        reply = self._reply(status_of(self._answer))
        self._done(reply)
        return reply

    async def chunks(self) -> AsyncIterator[bytes]:
        begun = False
        async with aclosing(self._run.pieces()) as pieces:
            async for _, _, new, _ in pieces:
                if not begun:
                    begun = True
                    for kind in ("created", "in_progress"):
                        yield self._whole_event(kind, self._reply("in_progress"))
                for change in self._blocks.feed(new):
                    for event in self._changed(change, "completed"):
                        yield event
        status = status_of(self._answer)
        for change in self._blocks.close():
            for event in self._changed(change, status):
                yield event
        reply = self._reply(status)
        self._done(reply)
        yield self._whole_event(status, reply)

    def failed(self, error: ApiError) -> bytes:
        """Return the event that ends a stream which can't go on."""
        reply = self._reply("failed")
        code = "rate_limit_exceeded" if error.status == 429 else error.code or "server_error"
        reply.error = ResponseFault(code=code, message=error.message)
        return self._whole_event("failed", reply)

    def _reply(self, status: Status) -> ResponseReply:
        body, run = self._body, self._run
        sampling = body.sampling(self._settings)
        ended = status in ("completed", "incomplete")
        items = [item(run, block, "completed") for block in self._blocks.done]
        if items and status == "incomplete":
            items[-1].status = status
        return ResponseReply(
            id=f"resp_{run.id}",
            created_at=self._created,
            completed_at=int(time.time()) if status == "completed" else None,
            status=status,
            incomplete_details=Incomplete() if status == "incomplete" else None,
            instructions=body.instructions,
            max_output_tokens=body.limit(self._settings),
            metadata=body.metadata or {},
            model=run.loaded.name,
            output=[] if status == "in_progress" else items,
            previous_response_id=body.previous_response_id,
            reasoning=body.reasoning.model_dump() if body.reasoning else {},
            store=body.keeps,
            temperature=sampling.temp,
            text={"format": {"type": "text"}},
            tool_choice=body.tool_choice or "auto",
            tools=[tool.model_dump() for tool in body.tools or ()],
            top_p=sampling.top_p,
            usage=usage_of(run) if ended else None,
            user=body.user,
        )

    def _changed(self, change: Change, status: Status) -> Iterator[bytes]:
        block = change.block
        if isinstance(change, Began):
            yield self._item_event("added", block, "in_progress")
            if block.kind != "call":
                yield self._part_event("added", block, "")
        elif isinstance(change, Grew):
            fields = {"delta": change.text, **_logprobs(block)}
            yield self._event(f"{_NAMES[block.kind]}.delta", **self._at(block), **fields)
        else:
            name = "arguments" if block.kind == "call" else "text"
            fields = {name: block.text, **_logprobs(block)}
            if block.kind == "call":
                fields["name"] = block.name
            yield self._event(f"{_NAMES[block.kind]}.done", **self._at(block), **fields)
            if block.kind != "call":
                yield self._part_event("done", block, block.text)
            yield self._item_event("done", block, status)

    def _at(self, block: Block) -> dict[str, Any]:
        place = {"item_id": item_id(self._run, block), "output_index": block.index}
        return place if block.kind == "call" else {**place, "content_index": 0}

    def _item_event(self, what: str, block: Block, status: Status) -> bytes:
        made = item(self._run, block, status).model_dump()
        return self._event(f"output_item.{what}", output_index=block.index, item=made)

    def _part_event(self, what: str, block: Block, text: str) -> bytes:
        part = ReasoningText(text=text) if block.kind == "reasoning" else OutputText(text=text)
        return self._event(f"content_part.{what}", **self._at(block), part=part.model_dump())

    def _whole_event(self, kind: str, reply: ResponseReply) -> bytes:
        return self._event(kind, response=reply.model_dump())

    def _event(self, kind: str, **fields: Any) -> bytes:
        name = f"response.{kind}"
        number, self._events = self._events, self._events + 1
        return sse.encoded({"type": name, "sequence_number": number, **fields}, name)


def _logprobs(block: Block) -> dict[str, Any]:
    return {"logprobs": []} if block.kind == "text" else {}
