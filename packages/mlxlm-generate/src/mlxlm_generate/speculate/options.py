"""From what a caller asks for to a speculation."""

from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.speculate.drafter import Drafter, Speculation
from mlxlm_generate.speculate.length import DraftLength


def speculation(
    drafter: Drafter | None, num_draft_tokens: int | DraftLength | None
) -> Speculation | None:
    """Return it, or None without a drafter; raise InvalidOption for what makes no sense."""
    if drafter is None:
        if num_draft_tokens is not None:
            raise InvalidOption(
                f"num_draft_tokens={num_draft_tokens} has no meaning without a drafter or a "
                "draft_model: leave it out."
            )
        return None
    if isinstance(num_draft_tokens, DraftLength):
        return Speculation(drafter, num_draft_tokens)
    count = GENERATION.num_draft_tokens if num_draft_tokens is None else num_draft_tokens
    if count < 1:
        raise InvalidOption(f"num_draft_tokens={count}: give 1 or more.")
    return Speculation(drafter, DraftLength(count))
