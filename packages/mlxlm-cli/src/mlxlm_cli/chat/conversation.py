"""A conversation over one live prompt cache.

After every answer the cache holds what the conversation, rendered anew, would put there,
as far as the tokens agree. The next turn keeps the longest common prefix and feeds only
the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlxlm_generate.defaults import GENERATION

from mlxlm_cli.prompts import Message


class _Stopped(Exception):
    """The user stopped a prefill between two chunks."""


@dataclass(frozen=True)
class Answer:
    """`finish_reason` is "stop", "length", or "interrupted"."""

    text: str
    finish_reason: str


@dataclass
class Conversation:
    """`options` goes to `stream_generate`, `template` to the chat template.

    With a `draft_model` the cache has its layers after the model's.
    """

    model: Any
    tokenizer: Any
    system_prompt: str | None = None
    max_kv_size: int | None = None
    draft_model: Any = None
    ngram_draft: bool = False
    num_draft_tokens: int = GENERATION.num_draft_tokens
    template: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(init=False)
    cache: list[Any] = field(init=False)
    _seen: list[int] = field(init=False, repr=False)
    """The tokens that `cache` has seen."""
    _draft_layers: int = field(init=False, repr=False, default=0)
    _guessing: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._guessing = {}
        if self.draft_model is not None or self.ngram_draft:
            from mlxlm_generate import DraftLength

            # One for all turns: what paid in a turn is known in the next.
            length = DraftLength(self.num_draft_tokens)
            self._guessing = {"draft_model": self.draft_model, "num_draft_tokens": length}
        self.reset()

    def reset(self) -> None:
        """Forget everything but the system prompt."""
        self.messages = []
        if self.system_prompt is not None:
            self.messages.append({"role": "system", "content": self.system_prompt})
        self._empty_cache()

    def ask(
        self,
        text: str,
        show: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Answer:
        """Answer `text`, passing each piece to `show`; look at `stopped` between tokens.

        What was shown is what the model remembers. A question stopped before anything
        was shown is forgotten.
        """
        self.messages.append({"role": "user", "content": text})
        try:
            answer = self._generate(show, stopped, progress)
        except BaseException:
            self.messages.pop()
            self._empty_cache()  # layers may disagree about how much they have seen
            raise
        if answer.text or answer.finish_reason != "interrupted":
            self.messages.append({"role": "assistant", "content": answer.text})
        else:
            self.messages.pop()
        return answer

    def _generate(
        self,
        show: Callable[[str], None],
        stopped: Callable[[], bool],
        progress: Callable[[int, int], None] | None,
    ) -> Answer:
        from mlxlm_generate import stream_generate

        def between_chunks(done: int, total: int) -> None:
            if progress is not None:
                progress(done, total)
            if stopped() and done < total:
                raise _Stopped

        ids = self._render()
        keep = self._rewind(ids)
        known, shown, reason = list(ids), "", "interrupted"
        stream = stream_generate(
            self.model,
            self.tokenizer,
            ids[keep:],
            prompt_cache=self.cache,
            prompt_progress_callback=between_chunks,
            drafter=self._drafter(),
            **self._guessing,
            **self.options,
        )
        try:
            for response in stream:
                token = response.stop_token if response.token is None else response.token
                known += [] if token is None else [token]
                shown += response.text
                show(response.text)
                if response.finish_reason is not None:
                    reason = response.finish_reason
                elif stopped():
                    break
        except _Stopped:
            pass
        finally:
            stream.close()
        self._settle(known)
        return Answer(shown, reason)

    def _drafter(self) -> Any:
        """Return what looks guesses up in the conversation so far."""
        if not self.ngram_draft:
            return None
        from mlxlm_generate import NGramDrafter

        drafter = NGramDrafter()
        drafter.extend(self._seen)
        return drafter

    def _render(self) -> list[int]:
        ids = self.tokenizer.apply_chat_template(
            self.messages, add_generation_prompt=True, tokenize=True, **self.template
        )
        return [int(token) for token in ids]

    def _rewind(self, ids: Sequence[int]) -> int:
        """Cut the cache back to what it shares with `ids`; return how many tokens that is.

        At least one token is left to feed. A cache that can't go back is filled anew.
        """
        from mlxlm_models import common_prefix_length

        keep = min(common_prefix_length(self._seen, ids), len(ids) - 1)
        if not self._trim(len(self._seen) - keep):
            keep = 0
        self._seen = list(ids[:keep])
        return keep

    def _settle(self, known: Sequence[int]) -> None:
        """Note which tokens the cache has seen: `known`, as far as they were fed."""
        seen = [layer.tokens_seen for layer in self.cache]
        fed = max(seen)
        if self.draft_model is not None and max(seen[-self._draft_layers :]) != fed:
            self._empty_cache()  # stopped before the draft model had read the prompt
            return
        if self._trim(fed - len(known)):
            self._seen = list(known[:fed])

    def _trim(self, extra: int) -> bool:
        """Take the last `extra` tokens back, or start an empty cache and return False."""
        from mlxlm_cache import CacheNotTrimmable, trim_prompt_cache

        try:
            if extra > 0:
                trim_prompt_cache(self.cache, extra)
        except CacheNotTrimmable:
            self._empty_cache()
            return False
        return True

    def _empty_cache(self) -> None:
        from mlxlm_cache import make_prompt_cache

        self.cache = make_prompt_cache(self.model, self.max_kv_size)
        if self.draft_model is not None:
            draft = make_prompt_cache(self.draft_model, self.max_kv_size)
            self.cache += draft
            self._draft_layers = len(draft)
        self._seen = []
