"""Steps of a generation, each under way before anything waits for it."""

from collections.abc import Callable, Generator

import mlx.core as mx

from mlxlm_generate.chooser import Choice, Chooser
from mlxlm_generate.forward import Forward
from mlxlm_generate.logprobs import Observed
from mlxlm_generate.prefill import prefill
from mlxlm_generate.prompt import Prompt
from mlxlm_generate.protocols import ProgressCallback
from mlxlm_generate.streams import generation_stream

Steps = Generator[tuple[int, Observed, bool], None, None]
"""A token, what was observed of it, and whether it had been guessed."""

CLEAR_EVERY = 256  # tokens: gives back buffers of sizes that don't come again

async_eval: Callable[..., None] = mx.async_eval


class Launch:
    """Feeds tokens and has the next one chosen, on the generation stream.

    The stream is entered around each launch and never across a yield: between them the
    thread is the consumer's.
    """

    def __init__(self, forward: Forward, choose: Chooser, *, observe_lazily: bool) -> None:
        self.forward, self.choose, self.observe_lazily = forward, choose, observe_lazily
        self.stream = generation_stream()

    def __call__(self, tokens: mx.array, embeddings: mx.array | None = None) -> Choice:
        """Feed tokens (L,), or embeddings in their place, and choose what follows."""
        with mx.stream(self.stream):
            choice = self.choose(self.forward(tokens, embeddings))
        observed = () if self.observe_lazily else choice.observed
        async_eval(choice.token, *observed, *self.choose.pending())
        return choice

    def absorb(self, tokens: mx.array, embeddings: mx.array | None = None) -> None:
        """Feed tokens for the cache alone: no logits are computed."""
        with mx.stream(self.stream):
            self.forward(tokens, embeddings)
        async_eval(self.forward.states())

    def first(
        self, prompt: Prompt, max_tokens: int, step_size: int, progress: ProgressCallback | None
    ) -> Choice | None:
        """Feed a prompt and return what follows, or None where no token is wanted."""
        last = prefill(
            self.forward, prompt, step_size=step_size, progress=progress, stream=self.stream
        )
        if max_tokens != 0:
            return self(last.tokens, last.embeddings)
        self.absorb(last.tokens, last.embeddings)
        mx.eval(self.forward.states())
        if progress is not None:
            progress(len(prompt), len(prompt))
        return None
