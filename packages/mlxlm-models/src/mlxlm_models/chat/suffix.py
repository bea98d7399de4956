"""What of a rendered prompt a cache has not seen yet."""

from collections.abc import Callable, Sequence

from mlxlm_models.errors import TokenizerError


class PromptMismatchError(TokenizerError):
    """A prompt does not begin with the tokens in the cache. `position`: the first difference."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences share from the start."""
    length = min(len(first), len(second))
    return next((i for i in range(length) if first[i] != second[i]), length)


def prompt_suffix(
    cached: Sequence[int], rendered: Sequence[int], decode: Callable[[list[int]], str]
) -> list[int]:
    """Return the tokens of `rendered` that follow those in the cache.

    Whatever a template makes of a conversation, only equal tokens are reused. `decode` is
    for the error: PromptMismatchError tells where the two part and shows both texts.
    """
    position = common_prefix_length(cached, rendered)
    if position == len(cached):
        return list(rendered[position:])

    def around(tokens: Sequence[int]) -> str:
        shown = list(tokens[max(0, position - 8) : position + 8])
        return repr(decode(shown)) + (" (ends here)" if len(tokens) <= position else "")

    raise PromptMismatchError(
        f"the prompt does not continue the cached one: they differ from token {position} on. "
        f"Cached: {around(cached)}; prompt: {around(rendered)}. "
        "Repeat the cached conversation unchanged, or start without the cache.",
        position,
    )
