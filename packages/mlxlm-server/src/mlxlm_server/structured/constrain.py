"""From what a request wants to the constraints that its answers are under."""

import asyncio
from collections.abc import Callable

from mlxlm_generate import TokenConstraint
from mlxlm_models import ReasoningBudget

from mlxlm_server.errors import invalid
from mlxlm_server.options import Drawing
from mlxlm_server.pool import Loaded
from mlxlm_server.structured.compiled import Compiled
from mlxlm_server.structured.fields import Wanted, refused
from mlxlm_server.structured.grammar import GrammarError
from mlxlm_server.structured.thinking import ThinkThenAnswer, thoughts_of

Constraint = Callable[[], TokenConstraint]
_PATIENCE = 20.0  # seconds


async def constrain(
    loaded: Loaded,
    body: Drawing,
    wanted: Wanted | None,
    *,
    budget: int | None = None,
    opened: bool = False,
    chat: bool = True,
    calls: bool = False,
) -> Constraint | None:
    """Return what makes a constraint for each answer, as `Server.begin` takes it.

    `budget` bounds the reasoning, which comes first in a `chat`; `opened` says that the prompt
    began it; `calls` that the form is that of tool calls. ApiError 400 for a grammar that
    can't be one or takes too much.
    """
    tokenizer, thinking = loaded.tokenizer, loaded.tokenizer.thinking
    if wanted is None:
        if budget is None:
            return None
        return lambda: ReasoningBudget(tokenizer, budget, opened=opened)
    if body.ignore_eos or body.min_tokens:
        name = "ignore_eos" if body.ignore_eos else "min_tokens"
        raise invalid(f"{name}: an answer ends where {wanted.param} says; leave it out.", name)
    if chat and thinking is not None and thinking.again and not calls:
        raise invalid(
            f"{wanted.param} is not supported for this model, which parts its answers into "
            f"channels ({thinking.start}).",
            wanted.param,
        )
    compiled = await _compiled(loaded, wanted)
    if not chat or thinking is None:
        return compiled.constraint
    thoughts = await asyncio.to_thread(thoughts_of, compiled.vocabulary, thinking)
    return lambda: ThinkThenAnswer(
        ReasoningBudget(tokenizer, budget, opened=opened), compiled.constraint(), thoughts
    )


async def _compiled(loaded: Loaded, wanted: Wanted) -> Compiled:
    try:
        work = asyncio.wrap_future(loaded.grammars.submit(wanted.grammar))
        return await asyncio.wait_for(work, _PATIENCE)
    except GrammarError as error:
        raise refused(error, wanted.param) from error
    except TimeoutError as error:
        raise invalid(
            f"{wanted.param}: it takes longer than {_PATIENCE:.0f} s to be compiled.",
            wanted.param,
            code="invalid_grammar",
        ) from error
