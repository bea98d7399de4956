"""What generation asks of a tokenizer, whichever kind it is."""

import logging
from collections.abc import Iterable
from typing import Any

from mlxlm_generate.detokenize import WindowDetokenizer
from mlxlm_generate.protocols import BareTokenizer, Detokenizer

logger = logging.getLogger(__name__)


def encode(tokenizer: BareTokenizer, text: str) -> list[int]:
    """Return a prompt's ids, with special tokens unless it begins with the BOS text."""
    bos = getattr(tokenizer, "bos_token", None)
    options: dict[str, Any] = {}
    if bos and text.startswith(bos):
        options["add_special_tokens"] = False
    encoded = tokenizer.encode(text, **options)
    ids: Iterable[Any] = getattr(encoded, "ids", encoded)
    return [int(token) for token in ids]


def eos_token_ids(tokenizer: BareTokenizer) -> frozenset[int]:
    """Return the ids that end a text; warns where the tokenizer doesn't say."""
    ids = getattr(tokenizer, "eos_token_ids", None)
    if ids is None:
        ids = getattr(tokenizer, "eos_token_id", None)
    if ids is None:
        logger.warning(
            "%s names no end-of-sequence token: the answer ends at max_tokens only.",
            type(tokenizer).__name__,
        )
        return frozenset()
    return frozenset([ids] if isinstance(ids, int) else ids)


def streaming_detokenizer(tokenizer: BareTokenizer) -> Detokenizer:
    """Return the tokenizer's own detokenizer, or one that needs only `decode`."""
    own: Detokenizer | None = getattr(tokenizer, "detokenizer", None)
    if own is None:
        return WindowDetokenizer(tokenizer)
    own.reset()
    return own
