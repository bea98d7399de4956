"""`/tokenize` and `/detokenize`: between text and token ids, with vLLM's names of fields."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from mlxlm_server.conversation import Conversation, rendered
from mlxlm_server.errors import invalid
from mlxlm_server.options import Fields, check_fields, check_ids
from mlxlm_server.pool import Loaded
from mlxlm_server.prompts import encode
from mlxlm_server.routes.chat import ChatMessage
from mlxlm_server.server import in_texts, server_of
from mlxlm_server.settings import ServerSettings

router = APIRouter()


class TokenizeRequest(Fields):
    """Either a text or a conversation. The special tokens of a conversation are its template's."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1)] | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool = False


class Tokens(BaseModel):
    """`max_model_len` is null where neither the model nor the server has a limit."""

    count: int
    max_model_len: int | None
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(Fields):
    model: str | None = None
    tokens: list[int]


class Detokenized(BaseModel):
    prompt: str


@router.post("/tokenize")
async def tokenize(http: Request, body: TokenizeRequest) -> Tokens:
    """Return the token ids of a text, or of a conversation as its chat template writes it."""
    server = server_of(http)
    check_fields(body, server.settings.strict)
    if (body.prompt is None) == (body.messages is None):
        raise invalid("Give either prompt or messages.", "prompt")
    loaded = await server.pool.get(body.model)
    tokenizer = loaded.tokenizer
    if body.messages is None:
        text, special = body.prompt or "", body.add_special_tokens is not False
        ids = await in_texts(loaded, lambda: encode(tokenizer, text, special=special))
    else:
        conversation = Conversation(
            messages=[message.model_dump() for message in body.messages],
            tools=body.tools,
            arguments=body.chat_template_kwargs or {},
        )
        prompt = await rendered(http, loaded, conversation)
        ids = prompt.ids
        if body.add_special_tokens:
            ids = await in_texts(loaded, lambda: encode(tokenizer, prompt.text, special=True))
    names = [tokenizer.decode([token]) for token in ids] if body.return_token_strs else None
    return Tokens(
        count=len(ids),
        max_model_len=longest(loaded, server.settings),
        tokens=ids,
        token_strs=names,
    )


@router.post("/detokenize")
async def detokenize(http: Request, body: DetokenizeRequest) -> Detokenized:
    """Return the text of token ids, special tokens included."""
    server = server_of(http)
    check_fields(body, server.settings.strict)
    loaded = await server.pool.get(body.model)
    check_ids(body.tokens, loaded.tokenizer, "tokens")
    text = await in_texts(loaded, lambda: loaded.tokenizer.decode(body.tokens))
    return Detokenized(prompt=text)


def longest(loaded: Loaded, settings: ServerSettings) -> int | None:
    """Return the most tokens of a prompt, by the tokenizer's files and the server's limit."""
    own = int(getattr(loaded.tokenizer, "model_max_length", 0) or 0)
    limits = [limit for limit in (own, settings.max_prompt_tokens or 0) if 0 < limit < 2**31]
    return min(limits, default=None)
