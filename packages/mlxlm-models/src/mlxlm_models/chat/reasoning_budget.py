"""A bound on how long a model thinks before it answers."""

from typing import TYPE_CHECKING

from mlxlm_models.errors import TokenizerError

if TYPE_CHECKING:
    import mlx.core as mx

    from mlxlm_models.tokenizer.wrapper import TokenizerWrapper


class ReasoningBudget:
    """Follows one answer token by token: counts the reasoning, and closes it when it is enough.

    It has the methods of mlxlm-generate's `TokenConstraint`, so that a server makes one for a
    request and passes it as `Request(…, constraint=budget)`; while no token is forced, any may
    come. After `max_tokens` tokens of reasoning come those of `closing`, by default the end
    marker alone; None only counts. `opened`: see `Thinking.opened_by`.

    TokenizerError where the template knows no reasoning, ValueError for a `closing` that
    doesn't close it.
    """

    def __init__(
        self,
        tokenizer: "TokenizerWrapper",
        max_tokens: int | None = None,
        *,
        opened: bool = False,
        closing: str | None = None,
    ) -> None:
        thinking = tokenizer.thinking
        if thinking is None:
            raise TokenizerError(
                "this model's chat template knows no reasoning: leave the reasoning budget out."
            )
        if max_tokens is not None and max_tokens < 0:
            raise ValueError(f"max_tokens={max_tokens}: give 0 or more tokens of reasoning.")
        closing = thinking.end if closing is None else closing
        if thinking.end not in closing:
            raise ValueError(f"closing={closing!r} must have {thinking.end!r} in it.")
        self._decode = tokenizer.decode
        self._thinking = thinking
        self._max_tokens = max_tokens
        self._start = tokenizer.encode(thinking.start, add_special_tokens=False)
        self._closing = tokenizer.encode(closing, add_special_tokens=False)
        self._window = 2 * max(len(thinking.start), len(thinking.end))
        self._tokens: list[int] = []
        self._borders: list[int] = [0] if opened else []
        """How many tokens there were when reasoning began, when it ended, and so on."""

    @property
    def thinking(self) -> bool:
        """The next token is part of the reasoning, or of its end marker."""
        return len(self._borders) % 2 == 1

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of reasoning so far, its end markers included."""
        ends = [*self._borders, len(self._tokens)] if self.thinking else self._borders
        return sum(end - begin for begin, end in zip(ends[::2], ends[1::2], strict=True))

    @property
    def beginning(self) -> int | None:
        """The token that would begin the reasoning, where all tokens so far do; else None."""
        done = len(self._tokens)
        begins = not self._borders and self._tokens == self._start[:done]
        return self._start[done] if begins and done < len(self._start) else None

    @property
    def forced(self) -> int | None:
        """The token that has to come next, None for any."""
        if self._max_tokens is None or not self._borders:
            return None
        *before, begin = self._borders if self.thinking else self._borders[:-1]
        spent = sum(end - start for start, end in zip(before[::2], before[1::2], strict=True))
        full = begin + max(0, self._max_tokens - spent)
        if not self.thinking and self._borders[-1] <= full:  # it came to an end by itself
            return None
        at = len(self._tokens) - full
        return self._closing[at] if 0 <= at < len(self._closing) else None

    def mask(self) -> "mx.array | None":
        """Return which tokens may come next, bool, up to the one forced; None for any."""
        import mlx.core as mx

        token = self.forced
        return None if token is None else mx.arange(token + 1) == token

    def advance(self, token: int, /) -> None:
        """Take note of a token that was generated."""
        self._tokens.append(token)
        if self._crosses():
            self._borders.append(len(self._tokens))

    def rollback(self, n: int, /) -> None:
        """Forget the latest `n` tokens."""
        del self._tokens[len(self._tokens) - n :]
        while self._borders and self._borders[-1] > len(self._tokens):
            self._borders.pop()

    def _crosses(self) -> bool:
        """Return whether the latest token completes the marker that is looked for."""
        if self.thinking:
            return self._thinking.end in self._latest()
        if self._thinking.again:
            return self._thinking.start in self._latest()
        if self._borders or len(self._tokens) > self._window:
            return False
        return self._latest().lstrip().startswith(self._thinking.start)

    def _latest(self) -> str:
        """Return the latest text, as much as any marker has, but none before a border."""
        begin = max(len(self._tokens) - self._window, *self._borders[-1:], 0)
        return self._decode(self._tokens[begin:])
