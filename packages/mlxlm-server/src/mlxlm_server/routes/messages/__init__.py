"""`/v1/messages`: Anthropic's API."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from mlxlm_server import sse
from mlxlm_server.conversation import begin, rendered
from mlxlm_server.errors import ApiError, anthropic_body
from mlxlm_server.options import check_fields
from mlxlm_server.running import unless_left
from mlxlm_server.server import server_of

from .reply import PING, MessageReply, Writer
from .request import CountRequest, MessagesRequest

router = APIRouter()


class Count(BaseModel):
    input_tokens: int


@router.post("/v1/messages", response_model=MessageReply)
async def messages(http: Request, body: MessagesRequest) -> Response | MessageReply:
    """Answer a conversation in blocks of thinking, text and uses of tools."""
    settings = server_of(http).settings
    check_fields(body, settings.strict)
    run = await begin(http, body, body.conversation())
    writer = Writer(run)
    if not body.stream:
        return await unless_left(http, writer.whole())

    def failed(error: ApiError) -> bytes:
        return sse.encoded(anthropic_body(error, run.id), "error")

    return await sse.stream(http, writer.chunks(), settings.keepalive, sse.Style(failed, PING))


@router.post("/v1/messages/count_tokens")
async def count_tokens(http: Request, body: CountRequest) -> Count:
    """Return how many tokens the conversation has as a prompt."""
    server = server_of(http)
    check_fields(body, server.settings.strict)
    loaded = await server.pool.get(body.model)
    prompt = await rendered(http, loaded, body.conversation())
    return Count(input_tokens=len(prompt.ids))
