"""The token ids that XTC has to leave alone."""

from typing import Any


def xtc_special_tokens(tokenizer: Any) -> list[int]:
    """Return the ids of a newline and of every end-of-sequence token, each once.

    Without them XTC removes newlines and EOS when they are likely, and text neither
    breaks nor ends. A tokenizer is anything with `encode`; `eos_token_ids`, or else
    `eos_token_id`, says where text ends.
    """
    try:  # Without it a BOS would be protected too.
        newline = tokenizer.encode("\n", add_special_tokens=False)
    except TypeError:
        newline = tokenizer.encode("\n")
    ends = getattr(tokenizer, "eos_token_ids", None)
    if ends is None:
        ends = getattr(tokenizer, "eos_token_id", None)
    if ends is None:
        ends = ()
    elif isinstance(ends, int):
        ends = (ends,)
    ids = [*getattr(newline, "ids", newline), *sorted(ends)]
    return list(dict.fromkeys(int(token) for token in ids))
