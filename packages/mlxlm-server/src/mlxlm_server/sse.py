"""Server-sent events: the WHATWG's format, with comments while there is nothing to say (R37)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from mlxlm_server.errors import ApiError, of_request

DONE = "[DONE]"


def encoded(data: Any, event: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = "" if event is None else f"event: {event}\n"
    return f"{head}data: {text}\n\n".encode(errors="replace")


async def stream(chunks: AsyncIterator[bytes], keepalive: float) -> StreamingResponse:
    """Return the response once there is something to send.

    An error before that is raised, so that it gets its status; one after that is an event.
    """
    first = await anext(chunks)
    return StreamingResponse(
        _body(first, chunks, keepalive),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _body(
    first: bytes, chunks: AsyncIterator[bytes], keepalive: float
) -> AsyncIterator[bytes]:
    pending: asyncio.Future[bytes] | None = None
    try:
        yield first
        while True:
            pending = asyncio.ensure_future(anext(chunks))
            while not (await asyncio.wait({pending}, timeout=keepalive or None))[0]:
                yield b": keepalive\n\n"
            yield await pending
    except StopAsyncIteration:
        return
    except ApiError as error:
        yield encoded(error.body)
    except Exception as error:
        yield encoded(of_request(error).body)
        raise
    finally:
        if pending is not None and not pending.done():
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await chunks.aclose()  # type: ignore[attr-defined]
