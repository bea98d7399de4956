"""Whether the ids of two tokenizers mean the same (R24)."""

from collections.abc import Callable
from typing import Any, cast

from mlxlm_generate.errors import DraftMismatch
from mlxlm_generate.protocols import BareTokenizer
from mlxlm_generate.tokenizer import encode

_SHOWN = 3
_PROBE = "The quick brown fox, 1234567890 — ¿Qué? naïve 東京 🙂\n\tdef f(x):\n    return x"


def check_draft_tokenizer(tokenizer: BareTokenizer, draft_tokenizer: BareTokenizer) -> None:
    """Raise DraftMismatch unless a draft's ids mean what the target's mean.

    Every id that both have must be the same token, and the ids that begin and end a text
    must agree; one may have more tokens than the other. A tokenizer without `get_vocab()`
    is compared by the ids of a sample text.
    """
    ours, theirs = _tokens(tokenizer), _tokens(draft_tokenizer)
    if ours is None or theirs is None:
        if encode(tokenizer, _PROBE) != encode(draft_tokenizer, _PROBE):
            raise _mismatch("they encode a sample text differently")
    else:
        _compare(ours, theirs)
    _compare_ends(tokenizer, draft_tokenizer)


def _tokens(tokenizer: Any) -> dict[int, str] | None:
    get_vocab: Callable[[], dict[str, int]] | None = getattr(tokenizer, "get_vocab", None)
    return None if get_vocab is None else {i: token for token, i in get_vocab().items()}


def _compare(ours: dict[int, str], theirs: dict[int, str]) -> None:
    different = sorted(i for i in ours.keys() & theirs.keys() if ours[i] != theirs[i])
    if different:
        shown = ", ".join(f"{i} is {ours[i]!r} and {theirs[i]!r}" for i in different[:_SHOWN])
        more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        raise _mismatch(f"{shown}{more}")
    if not ours.keys() & theirs.keys():
        raise _mismatch("they have no id in common")


def _compare_ends(tokenizer: Any, draft: Any) -> None:
    ends, draft_ends = _ends(tokenizer), _ends(draft)
    if ends and draft_ends and not ends & draft_ends:
        raise _mismatch(f"texts end with {sorted(ends)} and {sorted(draft_ends)}")
    begin, draft_begin = (getattr(t, "bos_token_id", None) for t in (tokenizer, draft))
    if begin is not None and draft_begin is not None and begin != draft_begin:
        raise _mismatch(f"texts begin with {begin} and {draft_begin}")


def _ends(tokenizer: Any) -> set[int]:
    ids = getattr(tokenizer, "eos_token_ids", None)
    if ids is None:
        ids = getattr(tokenizer, "eos_token_id", None)
    return set() if ids is None else {ids} if isinstance(ids, int) else set(cast(list[int], ids))


def _mismatch(what: str) -> DraftMismatch:
    return DraftMismatch(
        f"Draft model tokenizer does not match model tokenizer: {what}. Take a draft model of "
        "the same family, or NGramDrafter, which needs none."
    )
