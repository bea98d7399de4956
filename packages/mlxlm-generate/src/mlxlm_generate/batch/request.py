"""What is asked of the engine for one prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache
from mlxlm_sample import KeyStream

from mlxlm_generate.batch.constraint import TokenConstraint
from mlxlm_generate.batch.stop import StopMatcher
from mlxlm_generate.checks import check_max_tokens
from mlxlm_generate.errors import InvalidOption, InvalidPrompt
from mlxlm_generate.logprobs import LogprobsRequest, Observer
from mlxlm_generate.prompt import token_array
from mlxlm_generate.protocols import LogitsProcessor, Sampler
from mlxlm_generate.speculate.drafter import Drafter

Tokens = mx.array | Sequence[int]


@dataclass(frozen=True, eq=False)
class Request:
    """Checked at construction: InvalidPrompt, InvalidOption.

    `segments` are the prompt, in parts after each of which prefill stops once. `cache`
    has seen `history` before it; it is not changed. `max_tokens` -1 never ends, 0 only
    fills the cache. Neither the stop tokens of the engine nor `stop_matcher` end an
    answer before it has `min_tokens`, and with `ignore_eos` the former never do. `key`
    takes the place of the sampler's own. `drafter`, one for this request alone, guesses
    tokens. What is None is as the engine has it.
    """

    segments: Sequence[Tokens]
    max_tokens: int
    cache: Sequence[Cache] | None = None
    history: Tokens | None = None
    sampler: Sampler | None = None
    logits_processors: Sequence[LogitsProcessor] | None = None
    stop_matcher: StopMatcher | None = None
    constraint: TokenConstraint | None = None
    key: int | mx.array | KeyStream | None = None
    logprobs: LogprobsRequest = None
    min_tokens: int = 0
    ignore_eos: bool = False
    keep_cache: bool | None = None
    drafter: Drafter | None = None

    def __post_init__(self) -> None:
        parts = [token_list(part) for part in self.segments]
        if not parts or not all(parts):
            raise InvalidPrompt(
                "A prompt, or a segment of one, is empty: give at least one token, for "
                "instance the beginning-of-text token."
            )
        seen = () if self.history is None else tuple(token_list(self.history))
        object.__setattr__(self, "segments", tuple(map(tuple, parts)))
        object.__setattr__(self, "history", seen)
        if self.logits_processors is not None:
            object.__setattr__(self, "logits_processors", tuple(self.logits_processors))
        check_max_tokens(self.max_tokens)
        if self.min_tokens < 0:
            raise InvalidOption(f"min_tokens={self.min_tokens}: give 0 or more.")
        if 0 <= self.max_tokens < self.min_tokens:
            raise InvalidOption(
                f"min_tokens={self.min_tokens} is more than max_tokens={self.max_tokens}."
            )
        if self.stop_matcher is not None and not isinstance(self.stop_matcher, StopMatcher):
            raise InvalidOption(f"stop_matcher: {type(self.stop_matcher).__name__} has no start().")
        if self.constraint is not None and not isinstance(self.constraint, TokenConstraint):
            raise InvalidOption(
                f"constraint: {type(self.constraint).__name__} lacks mask(), advance() or "
                "rollback()."
            )
        if self.drafter is not None and not isinstance(self.drafter, Drafter):
            raise InvalidOption(f"drafter: {type(self.drafter).__name__} is no Drafter.")
        if self.key is not None and not isinstance(self.key, KeyStream):
            object.__setattr__(self, "key", KeyStream(self.key))
        Observer(self.logprobs)  # raises for what is no request
        held = max((c.tokens_seen for c in self.cache), default=0) if self.cache else 0
        if seen and len(seen) != held:
            raise InvalidOption(
                f"all_tokens has {len(seen)} tokens and the cache has seen {held}: give those "
                "that it has seen, or none."
            )

    @property
    def prompt(self) -> list[int]:
        return [token for segment in self.segments for token in token_list(segment)]


def token_list(tokens: Any) -> list[int]:
    """Return ids, an integer array or a sequence, as a list. Raises InvalidPrompt."""
    if isinstance(tokens, str):
        raise InvalidPrompt("A prompt is token ids here, not a string: encode it first.")
    listed: Any = token_array(tokens).tolist()
    return [int(token) for token in listed]
