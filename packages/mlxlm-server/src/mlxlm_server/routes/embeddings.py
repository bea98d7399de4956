"""`/v1/embeddings`: texts as vectors."""

import asyncio
from array import array
from base64 import b64encode
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from mlxlm_server.embed import Pooling, embeddings
from mlxlm_server.errors import invalid, unavailable
from mlxlm_server.options import Fields, check_fields, check_prompt
from mlxlm_server.prompts import texts_or_ids
from mlxlm_server.running import unless_left
from mlxlm_server.server import in_texts, server_of

MOST = 2048
"""Texts of one request."""

router = APIRouter()


class EmbeddingsRequest(Fields):
    """`pooling` is mlxlm's: the state after the last token, or the mean of all."""

    model: str | None = None
    input: str | list[int] | list[str] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None
    pooling: Pooling = "last"
    user: str | None = None


class Embedding(BaseModel):
    """A vector of length 1; in base64, of float32, the least significant byte first."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(BaseModel):
    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


@router.post("/v1/embeddings")
async def make_embeddings(http: Request, body: EmbeddingsRequest) -> EmbeddingsReply:
    """Return a vector for each text, or list of token ids."""
    server = server_of(http)
    settings = server.settings
    check_fields(body, settings.strict)
    loaded = await server.pool.get(body.model)
    tokenizer = loaded.tokenizer
    prompts = await in_texts(loaded, lambda: texts_or_ids(body.input, tokenizer, "input"))
    if len(prompts) > MOST:
        raise invalid(f"input: give up to {MOST} texts, these are {len(prompts)}.", "input")
    for prompt in prompts:
        check_prompt(prompt, tokenizer, settings, "input")
    work = embeddings(prompts, body.pooling, body.dimensions)
    id: str = http.scope["request_id"]
    try:
        async with asyncio.timeout(settings.request_timeout):
            vectors = await unless_left(http, loaded.engine.compute(id, work))
    except TimeoutError as error:
        seconds = settings.request_timeout
        message = f"The request took longer than the limit (--request-timeout), {seconds} s."
        raise unavailable(message, "timeout") from error
    tokens = sum(map(len, prompts))
    server.metrics.embedded(loaded.name, id, len(prompts), tokens)
    return EmbeddingsReply(
        data=[
            Embedding(index=i, embedding=_base64(v) if body.encoding_format == "base64" else v)
            for i, v in enumerate(vectors)
        ],
        model=loaded.name,
        usage=EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens),
    )


def _base64(vector: list[float]) -> str:
    return b64encode(array("f", vector).tobytes()).decode()
