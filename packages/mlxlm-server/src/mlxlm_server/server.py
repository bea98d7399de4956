"""What all routes share, and how one of them starts answers.

Every dialect is made of three steps: a prompt's token ids, `Server.begin`, which returns a
`Run`, and `Run.pieces`, the events from which the dialect writes its chunks or its whole
answer. A new dialect adds a router in `routes`; it needs nothing of the engine.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from fastapi import Request

from mlxlm_server import requestlog
from mlxlm_server.answer import Answer
from mlxlm_server.engine.ticket import Ticket
from mlxlm_server.errors import unavailable
from mlxlm_server.metrics import Metrics
from mlxlm_server.options import Drawing, check_prompt, requests
from mlxlm_server.pool import Loaded, Pool
from mlxlm_server.prompts import Prompt
from mlxlm_server.running import Run
from mlxlm_server.settings import ServerSettings
from mlxlm_server.stored import Stored

Result = TypeVar("Result")


class Server:
    """The settings, the models, the counts, the requests under way and responses kept."""

    def __init__(self, settings: ServerSettings, pool: Pool) -> None:
        self.settings = settings
        self.pool = pool
        self.metrics = Metrics()
        self.runs: dict[str, Run] = {}
        self.stored = Stored()
        self.failure: BaseException | None = None
        """Why the first model is not there."""
        self.must_load = False
        """The server ends where the first model can't be loaded: whoever runs it says why."""

    def begin(
        self,
        request_id: str,
        loaded: Loaded,
        body: Drawing,
        prompts: Sequence[Prompt],
        *,
        param: str,
        logprobs: Any = None,
        constraint: Callable[[], Any] | None = None,
        chat: bool = False,
        opened: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        parallel: bool = True,
        formed: bool = False,
    ) -> Run:
        """Return `body.n` answers to each prompt, which start once `pieces` is iterated.

        `constraint` makes one for each answer; see `Answer` for the rest. ApiError for what is
        wrong with the request.
        """
        for prompt in prompts:
            check_prompt(prompt.ids, loaded.tokenizer, self.settings, param)
        asked = [
            each
            for prompt in prompts
            for each in requests(
                body, prompt.ids, loaded.tokenizer, self.settings, logprobs, constraint
            )
        ]
        answers = [
            Answer(
                loaded.tokenizer,
                stops=body.stops,
                opened=opened,
                chat=chat,
                tools=tools,
                parallel=parallel,
                formed=formed,
            )
            for _ in asked
        ]
        run = Run(
            id=request_id,
            loaded=loaded,
            answers=answers,
            ticket=Ticket(request_id, asked, prompts[0].boundary if len(prompts) == 1 else None),
            prompt_tokens=sum(len(prompt.ids) for prompt in prompts),
            per_prompt=body.n,
            timeout=self.settings.request_timeout,
            on_end=self._ended,
        )
        self.runs[request_id] = run
        requestlog.generates()
        return run

    def _ended(self, run: Run, outcome: str) -> None:
        self.runs.pop(run.id, None)
        self.metrics.ended(run, outcome)

    def end_runs(self) -> None:
        """Fail what is under way, as the server is about to end."""
        for run in list(self.runs.values()):
            run.ticket.fail(unavailable("The server is shutting down.", "shutting_down"))
            run.loaded.engine.cancel(run.ticket)

    def cancel(self, request_id: str) -> bool:
        """Cancel a request by its id; False where none of that id is under way."""
        run = self.runs.get(request_id)
        if run is not None:
            run.loaded.engine.cancel(run.ticket)
        return run is not None


async def in_texts(loaded: Loaded, function: Callable[[], Result]) -> Result:
    """Call what tokenizes in the thread that a model has for this."""
    return await asyncio.get_running_loop().run_in_executor(loaded.texts, function)


def server_of(http: Request) -> Server:
    return cast(Server, http.app.state.server)
