import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mlxlm_server import sse
from mlxlm_server.errors import ApiError, invalid


class Client:
    """A request whose client stays, or leaves at once."""

    def __init__(self, leaves: bool = False) -> None:
        self.leaves = leaves

    async def receive(self) -> dict[str, str]:
        if not self.leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}


ended: list[str] = []


async def slow(seconds: float, error: Exception | None = None) -> AsyncIterator[bytes]:
    try:
        await asyncio.sleep(seconds)
        yield sse.encoded("one")
        if error is not None:
            raise error
        await asyncio.sleep(seconds)
        yield sse.encoded("two")
    finally:
        ended.append("ended")


def read(chunks: AsyncIterator[bytes], keepalive: float, **client: Any) -> str:
    async def all_of_it() -> str:
        response: Any = await sse.stream(Client(**client), chunks, keepalive)  # type: ignore[arg-type]
        return "".join([part.decode() async for part in response.body_iterator])

    return asyncio.run(all_of_it())


def test_R37_comments_come_while_there_is_nothing_to_say_before_the_first_event_too() -> None:
    parts = read(slow(0.3), 0.1).split("\n\n")
    assert parts.pop() == ""
    assert {part for part in parts if part.startswith(":")} == {": keepalive"}
    assert [part for part in parts if not part.startswith(":")] == ["data: one", "data: two"]
    assert parts[0] == ": keepalive"
    assert ": keepalive" in parts[parts.index("data: one") :]


def test_R37_without_keepalive_there_are_none() -> None:
    assert read(slow(0.2), 0) == "data: one\n\ndata: two\n\n"


def test_an_error_before_the_first_event_is_raised_and_one_after_it_is_an_event() -> None:
    async def failing() -> AsyncIterator[bytes]:
        raise invalid("no")
        yield b""

    with pytest.raises(ApiError, match="no"):
        read(failing(), 1)
    text = read(slow(0.01, invalid("too late")), 1)
    assert text.startswith("data: one\n\ndata: {")
    assert "too late" in text


def test_R38_a_client_that_leaves_before_the_first_event_ends_the_work() -> None:
    ended.clear()
    with pytest.raises(ApiError) as caught:
        read(slow(30), 0, leaves=True)
    assert caught.value.status == 499
    assert ended == ["ended"]


def test_a_text_of_several_lines_is_one_event() -> None:
    assert sse.encoded({"a": "b\nc"}, "name") == b'event: name\ndata: {"a": "b\\nc"}\n\n'
