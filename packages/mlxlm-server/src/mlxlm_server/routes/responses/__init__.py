"""`/v1/responses`: OpenAI's Responses API."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from mlxlm_server import sse
from mlxlm_server.conversation import begin
from mlxlm_server.errors import ApiError, invalid
from mlxlm_server.options import check_fields
from mlxlm_server.running import unless_left
from mlxlm_server.server import Server, server_of
from mlxlm_server.stored import MOST, Kept

from .reply import ResponseReply
from .request import ResponsesRequest, joined
from .writer import Writer

router = APIRouter()


@router.post("/v1/responses", response_model=ResponseReply)
async def responses(http: Request, body: ResponsesRequest) -> Response | ResponseReply:
    """Answer an input in items of reasoning, messages and function calls."""
    server = server_of(http)
    settings = server.settings
    check_fields(body, settings.strict)
    body.check()
    messages = body.messages(_before(server, body.previous_response_id))
    run = await begin(http, body, body.conversation(messages))

    def done(reply: ResponseReply) -> None:
        if body.keeps:
            made = reply.model_dump()
            server.stored.put(reply.id, Kept(made, joined(messages, made["output"])))

    writer = Writer(run, body, settings, done)
    if not body.stream:
        return await unless_left(http, writer.whole())
    style = sse.Style(writer.failed)
    return await sse.stream(http, writer.chunks(), settings.keepalive, style)


@router.get("/v1/responses/{response_id}")
async def response(http: Request, response_id: str) -> ResponseReply:
    """Return a response that is still kept."""
    kept = server_of(http).stored.get(response_id)
    if kept is None:
        raise _missing(response_id)
    return ResponseReply.model_validate(kept.reply)


class Deleted(BaseModel):
    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


@router.delete("/v1/responses/{response_id}")
async def delete_response(http: Request, response_id: str) -> Deleted:
    """Forget a response."""
    if not server_of(http).stored.drop(response_id):
        raise _missing(response_id)
    return Deleted(id=response_id)


def _before(server: Server, previous: str | None) -> Sequence[Mapping[str, Any]]:
    if previous is None:
        return ()
    kept = server.stored.get(previous)
    if kept is None:
        raise invalid(
            f"previous_response_id: {previous[:100]!r} is not kept. The latest responses are, up "
            f"to {MOST}, in memory, unless store is false: send the whole conversation as input.",
            "previous_response_id",
            "previous_response_not_found",
        )
    return kept.messages


def _missing(id: str) -> ApiError:
    return ApiError(404, f"The response {id[:100]!r} is not kept.", code="not_found")
