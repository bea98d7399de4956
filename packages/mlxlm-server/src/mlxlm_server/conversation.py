"""A conversation's way to the engine, the same in every dialect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from mlxlm_server.errors import invalid
from mlxlm_server.options import Drawing
from mlxlm_server.pool import Loaded
from mlxlm_server.prompts import Prompt, render
from mlxlm_server.running import Run
from mlxlm_server.server import in_texts, server_of
from mlxlm_server.structured.calls import Forced
from mlxlm_server.structured.constrain import constrain
from mlxlm_server.structured.fields import Wanted, of_calls


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What a dialect makes of its request: messages and tools as in OpenAI's chat completions.

    `arguments` are variables of the chat template, `wanted` the form that the answer must have
    (see `structured.fields`). `thinking` switches reasoning on or off where the template can;
    False closes it at once where it can't. `param` and `budget_param` are what the dialect
    calls the messages and the budget, for errors. `forced`: the answer is calls of tools, and
    `wanted` then says nothing; without `parallel` only the first call counts.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thinking: bool | None = None
    reasoning_budget: int | None = None
    wanted: Wanted | None = None
    forced: Forced | None = None
    parallel: bool = True
    param: str = "messages"
    budget_param: str = "reasoning_budget"


async def rendered(http: Request, loaded: Loaded, conversation: Conversation) -> Prompt:
    """Return the conversation's tokens; ApiError 400 where the template refuses it."""
    arguments = {**server_of(http).settings.chat_template_args, **conversation.arguments}
    if conversation.thinking is not None:
        arguments["enable_thinking"] = conversation.thinking
    try:
        return await in_texts(
            loaded,
            lambda: render(
                loaded.tokenizer,
                conversation.messages,
                conversation.tools or None,
                arguments,
                boundary=not loaded.cuttable,
            ),
        )
    except (ValueError, TypeError, KeyError) as error:
        message = f"The chat template refuses this: {error}"
        raise invalid(message, conversation.param) from error


async def begin(
    http: Request, body: Drawing, conversation: Conversation, logprobs: Any = None
) -> Run:
    """Return the answers to a conversation, which start once their pieces are iterated."""
    server = server_of(http)
    loaded = await server.pool.get(body.model)
    prompt = await rendered(http, loaded, conversation)
    thinking = loaded.tokenizer.thinking
    opened = thinking is not None and thinking.opened_by(prompt.text)
    budget, wanted = conversation.reasoning_budget, conversation.wanted
    if conversation.thinking is False and thinking is not None:
        budget = 0
    if budget is not None and thinking is None:
        raise invalid("This model's chat template knows no reasoning.", conversation.budget_param)
    forced = conversation.forced
    if forced is not None:
        wanted = of_calls(loaded.tokenizer, conversation.tools, forced)
    elif wanted is not None and conversation.tools:
        raise invalid(
            f"{wanted.param} can't go with tools that the model may call or not: leave them out, "
            "or set tool_choice to none.",
            wanted.param,
        )
    constraint = await constrain(
        loaded, body, wanted, budget=budget, opened=opened, calls=forced is not None
    )
    return server.begin(
        http.scope["request_id"],
        loaded,
        body,
        [prompt],
        param=conversation.param,
        logprobs=logprobs,
        constraint=constraint,
        chat=True,
        opened=opened,
        tools=conversation.tools or None,
        parallel=conversation.parallel,
        formed=wanted is not None,
    )
