"""A request that is running."""

import logging
from collections.abc import Collection
from itertools import accumulate

import mlx.core as mx
from mlxlm_cache import Cache, TokenBuffer
from mlxlm_sample import KeyStream, ProcessorOptions, SamplingOptions, combined_options
from mlxlm_sample import Sampler as MadeSampler

from mlxlm_generate.batch.request import Request
from mlxlm_generate.batch.response import BatchFinishReason, TokenResponse
from mlxlm_generate.batch.stop import Match, StopMatcher
from mlxlm_generate.logprobs import Logprobs
from mlxlm_generate.protocols import Sampler
from mlxlm_generate.speculate.model import ModelDrafter

logger = logging.getLogger(__name__)

_GREEDY = SamplingOptions()


class Row:
    """What is known of a request on the host: its tokens, and what ends it."""

    def __init__(
        self,
        uid: int,
        request: Request,
        *,
        stops: Collection[int],
        matchers: Collection[StopMatcher],
        key: KeyStream,
    ) -> None:
        self.uid = uid
        self.request = request
        self.prompt = request.prompt
        self.boundaries = list(accumulate(len(segment) for segment in request.segments))
        self.tokens = [*(request.history if request.history is not None else ()), *self.prompt]
        self.cache: list[Cache] = []
        """The prompt cache, until the row is part of a lane."""
        self.before = 0
        """Tokens that the cache had seen before the prompt."""
        self.fed = 0
        """Tokens of the prompt and the answer that the cache has seen since."""
        self.alone = False
        """Whether its prompt must not be processed together with others."""
        self.quantized = False
        self.count = 0
        """Tokens of the answer that were given out."""
        self.drawn = 0
        """Tokens of the answer that were chosen, one under way included."""
        self.fault: Exception | None = None
        self.finish_reason: BatchFinishReason | None = None
        self.stops: Collection[int] = () if request.ignore_eos else stops
        self._matchers = [m.start() for m in ([] if request.ignore_eos else matchers)]
        if request.stop_matcher is not None:
            self._matchers.append(request.stop_matcher.start())
        self.drafter = request.drafter
        self._drafter_bytes: int | None = None
        self.longest_guess = 0
        """How many tokens to guess at most, from what was right; 0 before that is known."""
        self.draft = request.drafter if isinstance(request.drafter, ModelDrafter) else None
        """Its drafter, where that is one whose model decodes for several rows at once."""
        if self.draft is not None and not self.draft.shares:
            self.draft = None
        self.drafted = self.accepted = 0
        self._told = 0
        self.options, self.sampler = _vectorized(request.sampler)
        self.key = key
        self.processing: ProcessorOptions | None = None
        """What its processors do, where that is known; otherwise `history` is for them."""
        self.history: TokenBuffer | None = None
        if request.logits_processors:
            self.processing = combined_options(request.logits_processors)
        if request.logits_processors and self.processing is None:
            self.history = TokenBuffer(self.tokens)
            mx.eval(self.history.state)

    @property
    def seen(self) -> int:
        """Tokens that the cache has seen in all."""
        return self.before + self.fed

    @property
    def seen_tokens(self) -> list[int]:
        """The tokens that the cache has seen, as far as they are known."""
        known = len(self.tokens) - len(self.prompt) - self.count
        return self.tokens[: known + self.fed]

    @property
    def to_prefill(self) -> int:
        """Tokens of the prompt to feed before the first one is chosen: all but the last."""
        return len(self.prompt) - (self.request.max_tokens != 0)

    @property
    def may_need(self) -> int:
        """Tokens that the cache may have to hold; without an end, one more block's worth."""
        more = self.request.max_tokens
        return self.before + len(self.prompt) + (256 if more < 0 else more)

    @property
    def drafter_bytes(self) -> int:
        """Bytes that its drafter may come to hold."""
        if self._drafter_bytes is None:
            drafter = self.drafter
            self._drafter_bytes = 0 if drafter is None else drafter.may_need(self.may_need)
        return self._drafter_bytes

    @property
    def wants_more(self) -> bool:
        """Whether there is another token to choose, unless one under way ends the answer."""
        return self.drawn != self.request.max_tokens and self.finish_reason is None

    @property
    def ends_at_next(self) -> bool:
        """Whether the token under way is the last one, whichever it is."""
        return self.count + 1 == self.request.max_tokens

    def guesses_now(self) -> bool:
        """Tell its drafter what is settled, and return whether a guess is likely."""
        if self.drafter is None or self.finish_reason is not None or self.fault is not None:
            return False
        try:
            self.drafter.extend(self.tokens[self._told :])
            self._told = len(self.tokens)
            return self.drafter.ready()
        except Exception as error:
            self.fault = error
            return False

    def chose_ahead(self, done: bool) -> None:
        """Set what was chosen to what was given out, and one more where that is `done`."""
        self.drawn = self.count + done
        if self.history is not None:
            self.history.trim(max(0, len(self.history) - len(self.tokens) - done))

    def learn(self, drafted: int, accepted: int, longest: int) -> None:
        """Adapt how many tokens to guess."""
        if drafted:
            whole = accepted == drafted
            self.longest_guess = min(longest, (drafted if whole else accepted) + 1)

    def leave(self) -> None:
        """Tell its drafter that the row is gone."""
        drafter, self.drafter = self.drafter, None
        if drafter is None:
            return
        try:
            drafter.finish(self._told)
        except Exception:
            logger.warning("A drafter failed at the end of request %d", self.uid, exc_info=True)

    def accept(self, token: int, record: Logprobs, *, from_draft: bool = False) -> TokenResponse:
        """Take the next token of the answer; sets `finish_reason` where it ends."""
        self.tokens.append(token)
        self.count += 1
        self.accepted += from_draft
        match: Match | None = None
        try:
            for matcher in self._matchers:
                found = matcher.advance(token)
                match = found if match is None else match
            if self.count < self.request.min_tokens:
                match = None
            if match is not None or (token in self.stops and self.count > self.request.min_tokens):
                self.finish_reason = "stop"
            elif self.count == self.request.max_tokens:
                self.finish_reason = "length"
            elif self.request.constraint is not None:
                self.request.constraint.advance(token)
        except Exception as error:
            self.fault = error
        return TokenResponse(
            self.uid,
            token,
            self.finish_reason,
            match,
            from_draft=from_draft,
            drafted=self.drafted,
            accepted=self.accepted,
            record=record,
        )

    def failure(self, error: Exception) -> TokenResponse:
        """End the row with an error."""
        self.fault, self.finish_reason = error, "error"
        return TokenResponse(
            self.uid,
            None,
            "error",
            error=error,
            drafted=self.drafted,
            accepted=self.accepted,
            all_tokens=tuple(self.tokens),
        )


def _vectorized(sampler: Sampler | None) -> tuple[SamplingOptions, Sampler | None]:
    """Return a sampler as options, or the sampler itself where it is somebody's own."""
    if sampler is None:
        return _GREEDY, None
    if type(sampler) is MadeSampler:
        return sampler.options, None
    return _GREEDY, sampler
