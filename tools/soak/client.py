"""One client's way of asking, and what it was told."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from tools.soak.cases import Case


@dataclass
class Told:
    """An answer: of each choice its text and why it ended, or an error."""

    status: int
    texts: dict[int, str] = field(default_factory=dict)
    finished: dict[int, str] = field(default_factory=dict)
    tokens: int | None = None
    error: str | None = None
    left: bool = False

    def same(self, other: "Told") -> bool:
        return (self.texts, self.finished) == (other.texts, other.finished) and (
            None in (self.tokens, other.tokens) or self.tokens == other.tokens
        )


async def whole(http: httpx.AsyncClient, case: Case) -> Told:
    response = await http.post(case.path, json=case.body)
    said = response.json()
    if "error" in said:
        return Told(response.status_code, error=said["error"]["code"] or said["error"]["type"])
    told = Told(response.status_code, tokens=said["usage"]["completion_tokens"])
    for choice in said["choices"]:
        message = choice.get("message") or {"content": choice.get("text")}
        told.texts[choice["index"]] = _seen(message)
        told.finished[choice["index"]] = choice["finish_reason"]
    return told


async def streamed(
    http: httpx.AsyncClient,
    case: Case,
    *,
    leave_after: int | None = None,
    cancel_after: int | None = None,
    pause: float = 0.0,
) -> Told:
    """Read a stream; leave or cancel it after some events, or pause after each."""
    body = {**case.body, "stream": True, "stream_options": {"include_usage": True}}
    async with http.stream("POST", case.path, json=body) as response:
        if response.status_code != 200:
            error = json.loads(await response.aread())["error"]
            return Told(response.status_code, error=error["code"] or error["type"])
        told, events, done = Told(200), 0, False
        async for line in response.aiter_lines():
            if not line or line.startswith(":"):
                continue
            if done or not line.startswith("data: "):
                raise ValueError(f"no event of this stream: {line!r}")
            if line == "data: [DONE]":
                done = True
                continue
            _take(told, json.loads(line[6:]))
            events += 1
            if told.error is not None:
                return told
            if events == leave_after:
                told.left = True
                return told
            if events == cancel_after:
                await http.post("/v1/cancel", json={"id": response.headers["x-request-id"]})
            await asyncio.sleep(pause)
        if not done:
            raise ValueError("the stream ended without [DONE]")
        return told


def _take(told: Told, event: dict[str, Any]) -> None:
    if "error" in event:
        told.error = event["error"]["code"] or event["error"]["type"]
        return
    if event.get("usage"):
        told.tokens = event["usage"]["completion_tokens"]
    for choice in event["choices"]:
        index = choice["index"]
        message = choice.get("delta") or {"content": choice.get("text")}
        told.texts[index] = told.texts.get(index, "") + _seen(message)
        if choice["finish_reason"] is not None:
            told.finished[index] = choice["finish_reason"]


def _seen(message: dict[str, Any]) -> str:
    return (message.get("reasoning_content") or "") + (message.get("content") or "")
