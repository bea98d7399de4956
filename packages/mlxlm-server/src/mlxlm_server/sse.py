"""Server-sent events: the WHATWG's format, with comments while nothing is new (R37)."""

import asyncio
import json
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mlxlm_server.errors import ApiError, of_request

DONE = "[DONE]"


def encoded(data: Any, event: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = "" if event is None else f"event: {event}\n"
    return f"{head}data: {text}\n\n".encode(errors="replace")


@dataclass(frozen=True)
class Style:
    """How the streams of a dialect say that something went wrong, and that nothing is new."""

    failed: Callable[[ApiError], bytes]
    idle: bytes = b": keepalive\n\n"


OPENAI = Style(lambda error: encoded(error.body))


async def stream(
    http: Request, chunks: AsyncIterator[bytes], keepalive: float, style: Style = OPENAI
) -> Response:
    """Return the response once there is something to send, be it a comment.

    An error before that is raised, so that it gets its status; one after that is an event.
    A client that leaves before that ends it too (R38).
    """
    first = asyncio.ensure_future(anext(chunks))
    gone = asyncio.ensure_future(left(http))
    try:
        await asyncio.wait({first, gone}, timeout=keepalive or None, return_when=FIRST_COMPLETED)
        if gone.done() and not first.done():
            raise ApiError(499, "The client went away.", code="cancelled")
        if first.done():
            first.result()
    except BaseException:
        await _end(first, chunks)
        raise
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    return StreamingResponse(
        _body(first, chunks, keepalive, style),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def left(http: Request) -> None:
    """Return when the client has gone; the body has to be read before."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


async def _body(
    pending: asyncio.Future[bytes], chunks: AsyncIterator[bytes], keepalive: float, style: Style
) -> AsyncIterator[bytes]:
    try:
        if not pending.done():
            yield style.idle  # so long has passed already
        while True:
            while not (await asyncio.wait({pending}, timeout=keepalive or None))[0]:
                yield style.idle
            yield await pending
            pending = asyncio.ensure_future(anext(chunks))
    except StopAsyncIteration:
        return
    except ApiError as error:
        yield style.failed(error)
    except Exception as error:
        yield style.failed(of_request(error))
        raise
    finally:
        await _end(pending, chunks)


async def _end(pending: asyncio.Future[bytes], chunks: AsyncIterator[bytes]) -> None:
    pending.cancel()
    await asyncio.gather(pending, return_exceptions=True)
    await chunks.aclose()  # type: ignore[attr-defined]
