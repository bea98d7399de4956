"""From what a caller asks for to a speculation."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from mlxlm_cache import Cache, make_prompt_cache

from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.protocols import Model
from mlxlm_generate.speculate.drafter import Drafter, Speculation
from mlxlm_generate.speculate.length import DraftLength

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Guessing:
    """What a caller asks for; raises InvalidOption for what makes no sense."""

    drafter: Drafter | None = None
    draft_model: Model | None = None
    num_draft_tokens: int | DraftLength | None = None

    def __post_init__(self) -> None:
        count = self.num_draft_tokens
        if self.drafter is not None and self.draft_model is not None:
            raise InvalidOption("drafter and draft_model both guess: give one of them.")
        if self.drafter is None and self.draft_model is None and count is not None:
            raise InvalidOption(
                f"num_draft_tokens={count} has no meaning without a drafter or a "
                "draft_model: leave it out."
            )
        if isinstance(count, int) and count < 1:
            raise InvalidOption(f"num_draft_tokens={count}: give 1 or more.")

    @property
    def length(self) -> DraftLength:
        """The caller's own, or a new one."""
        count = self.num_draft_tokens
        if isinstance(count, DraftLength):
            return count
        return DraftLength(GENERATION.num_draft_tokens if count is None else count)

    def by(self, drafter: Drafter | None) -> Speculation | None:
        return None if drafter is None else Speculation(drafter, self.length)


def parted(
    model: Model, draft_model: Model, prompt_cache: list[Cache] | None
) -> tuple[list[Cache] | None, list[Cache] | None]:
    """Return the target's layers of a prompt cache and the draft's, which come after these.

    Without the latter the draft has None: its cache is a new one (R25). Raises
    InvalidOption for another number of layers.
    """
    if prompt_cache is None:
        return None, None
    layers, more = len(make_prompt_cache(model)), len(make_prompt_cache(draft_model))
    if len(prompt_cache) not in (layers, layers + more):
        raise InvalidOption(
            f"prompt_cache has {len(prompt_cache)} layers, the model {layers} and the "
            f"draft_model {more}: give make_prompt_cache(model), or that + "
            "make_prompt_cache(draft_model)."
        )
    target, draft = prompt_cache[:layers], prompt_cache[layers:]
    seen, guessed = _seen(target), _seen(draft)
    if seen != guessed:
        logger.warning(
            "The draft model has seen %d tokens and the model %d: the answer is the same, "
            "but fewer guesses will be right. Keep the draft's layers in prompt_cache too.",
            guessed,
            seen,
        )
    return target, draft or None


def _seen(caches: Sequence[Cache]) -> int:
    return max((cache.tokens_seen for cache in caches), default=0)
