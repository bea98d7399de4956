"""Guesses of a smaller model that has the same vocabulary."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, cast

import mlx.core as mx
from mlxlm_cache import (
    Cache,
    can_checkpoint_prompt_cache,
    can_merge_prompt_cache,
    make_prompt_cache,
)

from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.errors import NotSupported
from mlxlm_generate.forward import Forward
from mlxlm_generate.kv import kv_quantization, working_cache
from mlxlm_generate.launch import async_eval
from mlxlm_generate.need import CacheNeed
from mlxlm_generate.protocols import Model
from mlxlm_generate.speculate.check import matching
from mlxlm_generate.speculate.drafter import Drafter, Draw
from mlxlm_generate.speculate.rewind import checkpoints
from mlxlm_generate.streams import generation_stream


class ModelDrafter(Drafter):
    """Decodes ahead with a draft model, whose ids mean what the target's mean.

    See `check_draft_tokenizer` for that; ids beyond the draft's vocabulary do no harm.
    `prompt_cache` is the draft's own, extended in place: at the end it holds the tokens
    that the target's holds. The other options are those of `generate_step`, for the
    draft's cache. Raises NotSupported where tokens can never be taken back from a cache of
    the draft, and what `generate_step` raises for these options.
    """

    def __init__(
        self,
        model: Model,
        prompt_cache: list[Cache] | None = None,
        *,
        max_kv_size: int | None = None,
        prefill_step_size: int = GENERATION.prefill_step_size,
        kv_bits: int | None = None,
        kv_group_size: int = GENERATION.kv_group_size,
        quantized_kv_start: int = GENERATION.quantized_kv_start,
    ) -> None:
        how = kv_quantization(kv_bits, kv_group_size, quantized_kv_start)
        self.cache = working_cache(model, prompt_cache, max_kv_size, how)
        if not can_checkpoint_prompt_cache(self.cache):
            raise NotSupported(
                "Refused guesses are taken back out of the draft's cache, and a layer of it "
                f"({', '.join(sorted({type(layer).__name__ for layer in self.cache}))}) "
                "cannot: leave draft_model out, or take another one."
            )
        self.model = model
        self.max_kv_size = max_kv_size
        self.shares = prompt_cache is None and how is None and can_merge_prompt_cache(self.cache)
        """Whether a batch engine may decode for it and others of its model at once."""
        self._how = how
        self._forward = Forward(model, self.cache, how)
        self._step_size = prefill_step_size
        self._is_kept = prompt_cache is not None
        self._vocabulary = 0
        self._tokens = 0  # settled ones, fed or not
        self._pending: list[int] = []  # settled, and not fed as such
        self._ahead: list[mx.array] = []  # guesses that were fed: the latest in the cache
        self._goes_back = 0  # how many tokens the cache can give back
        self._open = ExitStack()

    def extend(self, tokens: Sequence[int], /) -> None:
        """Append tokens that are settled. A prompt is fed at once, all but its last token."""
        self._pending += tokens
        self._tokens += len(tokens)
        if len(tokens) > 1:
            self._settle()
            self._feed(leave=1)

    def propose(self, limit: int, draw: Draw, /) -> mx.array:
        """Return `limit` tokens (limit,), lazy, that the draft model goes on with."""
        self._settle()
        if not self._pending:
            return mx.zeros((0,), dtype=mx.uint32)
        if limit > self._goes_back:
            self._open.enter_context(checkpoints(self.cache, limit))
            self._goes_back = limit
        self._feed(leave=1)
        fed = self._known(self._pending)
        guesses: list[mx.array] = []
        with mx.stream(generation_stream()):
            logits = self._forward(fed)
            self._pending.clear()
            while True:
                guesses.append(draw(logits).astype(mx.uint32))
                async_eval(guesses[-1])
                if len(guesses) == limit:
                    return mx.concatenate(guesses)
                logits = self._forward(mx.minimum(guesses[-1], self._vocabulary - 1))
                self._ahead.append(guesses[-1])

    def may_need(self, tokens: int, /) -> int:
        fresh = working_cache(self.model, None, self.max_kv_size, self._how)
        return CacheNeed(self.model, fresh, self._how, back=self._goes_back or 8)(tokens)

    def finish(self, tokens: int, /) -> None:
        """Leave a cache that is the caller's with the first `tokens`, no more and no fewer."""
        forward = self._forward
        try:
            if not forward.whole:  # interrupted within the draft model
                forward.keep_first(forward.fed - len(self._ahead))
                self._ahead.clear()
            self._settle()
            if not self._is_kept:
                return
            excess = max(0, self._tokens - tokens)
            kept = max(0, len(self._pending) - excess)
            excess -= len(self._pending) - kept
            del self._pending[kept:]
            if excess:
                forward.keep_first(forward.fed - excess)
            self._feed(leave=0)
        finally:
            self._open.close()

    def _settle(self) -> None:
        """Take back the guesses in the cache that did not come true."""
        if not self._ahead:
            return
        guessed = [cast(int, guess.item()) for guess in self._ahead]
        right = matching(guessed, self._pending)
        self._forward.take_back(len(guessed) - right)
        self._ahead.clear()
        del self._pending[:right]

    def _feed(self, leave: int) -> None:
        """Feed what is settled, in chunks, but for the latest `leave` tokens."""
        while len(self._pending) > leave:
            chunk = self._pending[: min(self._step_size, len(self._pending) - leave)]
            fed = self._known(chunk)
            with mx.stream(generation_stream()):
                self._forward(fed)
            del self._pending[: len(chunk)]
            mx.eval(self._forward.states())

    def _known(self, tokens: list[int]) -> mx.array:
        """Return tokens with those that the draft has none of replaced by its last."""
        if not self._vocabulary:
            self._vocabulary = vocabulary(self.model)
        return mx.minimum(mx.array(tokens, dtype=mx.uint32), self._vocabulary - 1)


def vocabulary(model: Model) -> int:
    """Return how many logits a model gives, from a token that isn't computed."""
    token: Any = mx.zeros((1, 1), dtype=mx.uint32)
    return model(token, cache=make_prompt_cache(model)).shape[-1]
