"""Guesses against what the target chooses itself."""

from typing import NamedTuple, cast

import mlx.core as mx

from mlxlm_generate.chooser import Choice
from mlxlm_generate.launch import Launch
from mlxlm_generate.logprobs import Observed
from mlxlm_generate.speculate.drafter import Guesses


class Checked(NamedTuple):
    """The guesses that were right, what was observed of each, and the choice that follows."""

    right: list[int]
    observed: list[Observed]
    following: Choice


def check(launch: Launch, logits: mx.array, guesses: Guesses) -> Checked:
    """Compare n guesses with what is chosen from logits (n + 1, V).

    Each choice is made as without guesses, at its place and with its key. So a guess of
    any origin is accepted with the probability that the target gives to it, and what
    takes a refused one's place is drawn from the rest: the target's distribution stays.
    All places cost one wait, unless a sampler or a processor is somebody's own: a call of
    such a one cannot be taken back, so it is made once the guess before proved right.
    """
    return (
        _at_once(launch, logits, guesses)
        if launch.choose.rewinds
        else _each(launch, logits, listed(guesses))
    )


def _at_once(launch: Launch, logits: mx.array, guesses: Guesses) -> Checked:
    tokens, observed, marks = launch.choose.in_turn(logits)
    lazy = [] if launch.observe_lazily else observed
    mx.eval(tokens, lazy, guesses if isinstance(guesses, mx.array) else [])
    chosen, guessed = cast(list[int], tokens.tolist()), listed(guesses)
    right = matching(guessed, chosen)
    launch.choose.rewind(marks[right])
    following = Choice(tokens[right : right + 1], observed[right])
    return Checked(guessed[:right], observed[:right], following)


def _each(launch: Launch, logits: mx.array, guesses: list[int]) -> Checked:
    choose = launch.choose
    observed: list[Observed] = []
    for place in range(logits.shape[0]):
        choice = choose(logits[place : place + 1])
        lazy = [] if launch.observe_lazily else choice.observed
        mx.eval(choice.token, lazy, *choose.pending())
        if place == len(guesses) or choice.token.item() != guesses[place]:
            break
        observed.append(choice.observed)
    return Checked(guesses[: len(observed)], observed, choice)


def matching(guesses: list[int], tokens: list[int]) -> int:
    """Return how many of the first guesses are the tokens."""
    pairs = enumerate(zip(guesses, tokens, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(guesses), len(tokens)))


def listed(guesses: Guesses) -> list[int]:
    if isinstance(guesses, mx.array):
        return cast(list[int], guesses.tolist())
    return list(guesses)
