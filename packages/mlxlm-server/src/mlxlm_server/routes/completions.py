"""`/v1/completions`: text that goes on."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from mlxlm_models import TextDelta
from pydantic import Field

from mlxlm_server import sse
from mlxlm_server.answer import TokenRecord
from mlxlm_server.errors import invalid
from mlxlm_server.options import Drawing, check_fields
from mlxlm_server.prompts import Prompt, texts_or_ids
from mlxlm_server.running import Run, unless_left, usage
from mlxlm_server.server import in_texts, server_of
from mlxlm_server.structured.constrain import constrain
from mlxlm_server.structured.fields import StructuredFields, wanted

router = APIRouter()


class CompletionRequest(Drawing, StructuredFields):
    prompt: str | list[int] | list[str] | list[list[int]]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool = False
    suffix: str | None = None
    best_of: int | None = None


@router.post("/v1/completions", response_model=None)
async def completions(http: Request, body: CompletionRequest) -> Response:
    """Continue one prompt or several, text or token ids."""
    server = server_of(http)
    check_fields(body, server.settings.strict)
    if body.echo or body.suffix or (body.best_of or body.n) != body.n:
        raise invalid("echo, suffix and best_of are not supported: leave them out.")
    loaded = await server.pool.get(body.model)
    tokenizer = loaded.tokenizer
    ids = await in_texts(loaded, lambda: texts_or_ids(body.prompt, tokenizer, "prompt"))
    constraint = await constrain(loaded, body, wanted(body), chat=False)
    run = server.begin(
        http.scope["request_id"],
        loaded,
        body,
        [Prompt(each) for each in ids],
        param="prompt",
        logprobs="sampled" if body.logprobs == 0 else body.logprobs,
        constraint=constraint,
    )
    writer = _Writer(run, body)
    if body.stream:
        return await sse.stream(http, writer.chunks(), server.settings.keepalive)
    return JSONResponse(await unless_left(http, writer.whole()))


class _Writer:
    def __init__(self, run: Run, body: CompletionRequest) -> None:
        self._run, self._body = run, body
        self._head = {
            "id": f"cmpl-{run.id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": run.loaded.name,
        }

    async def chunks(self) -> AsyncIterator[bytes]:
        async with aclosing(self._run.pieces()) as pieces:
            async for index, answer, new, response in pieces:
                text = "".join(piece.text for piece in new if isinstance(piece, TextDelta))
                if not text and response.finish_reason is None and self._body.logprobs is None:
                    continue
                fresh = answer.records[answer.told :]
                answer.told = len(answer.records)
                choice = self._choice(index, text, fresh, answer.finish_reason)
                yield sse.encoded({**self._head, "choices": [choice]})
        if self._body.include_usage:
            yield sse.encoded({**self._head, "choices": [], "usage": usage(self._run)})
        yield sse.encoded(sse.DONE)

    async def whole(self) -> dict[str, Any]:
        async with aclosing(self._run.pieces()) as pieces:
            async for _ in pieces:
                pass
        choices = [
            self._choice(index, answer.text, answer.records, answer.finish_reason)
            for index, answer in enumerate(self._run.answers)
        ]
        return {**self._head, "choices": choices, "usage": usage(self._run)}

    def _choice(
        self, index: int, text: str, records: list[TokenRecord], finish: str | None
    ) -> dict[str, Any]:
        logprobs = None if self._body.logprobs is None else self._logprobs(records)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, records: list[TokenRecord]) -> dict[str, Any]:
        name = self._run.loaded.tokenizer.decode
        return {
            "tokens": [name([record.id]) for record in records],
            "token_logprobs": [record.logprob for record in records],
            "top_logprobs": [
                {name([token]): logprob for token, logprob in record.top} for record in records
            ],
        }
