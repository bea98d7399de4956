"""Which tokens may come next, as a grammar says."""

from collections.abc import Collection, Sequence
from typing import Protocol, cast, runtime_checkable

import mlx.core as mx

from mlxlm_generate.errors import GenerationError


@runtime_checkable
class TokenConstraint(Protocol):
    """Follows one request. An exception from it ends that request with the error."""

    def mask(self) -> mx.array | None:
        """Return which tokens may come next, bool (V,), or None for any.

        Ids beyond a mask that is shorter than the vocabulary are not allowed.
        """
        ...

    def advance(self, token: int, /) -> None:
        """Take note of a token that was generated."""
        ...

    def rollback(self, n: int, /) -> None:
        """Forget the latest `n` tokens."""
        ...


class ConstraintError(GenerationError, ValueError):
    """A constraint gave a mask that can't be one."""


def padded_mask(mask: mx.array, size: int) -> mx.array:
    """Return a mask (size,), False where the constraint said nothing."""
    if mask.ndim != 1 or mask.dtype != mx.bool_ or mask.size > size:
        raise ConstraintError(
            f"mask() returned {mask.dtype} of shape {mask.shape}: return bool of at most "
            f"({size},), or None."
        )
    if mask.size == size:
        return mask
    return mx.concatenate([mask, mx.zeros((size - mask.size,), dtype=mx.bool_)])


def look_ahead(
    constraint: TokenConstraint, guesses: Sequence[int], ends: Collection[int], size: int
) -> tuple[list[int], list[mx.array | None]]:
    """Return the first guesses, those that are allowed, and the mask (size,) of each place.

    One place more than there are guesses, unless the last is one of `ends`. The constraint
    is then where it was.
    """
    masks, taken = [_mask(constraint, size)], 0
    try:
        while taken < len(guesses) and _allows(masks[-1], guesses[taken], size):
            if guesses[taken] in ends:
                return list(guesses[: taken + 1]), masks
            constraint.advance(guesses[taken])
            taken += 1
            masks.append(_mask(constraint, size))
    finally:
        if taken:
            constraint.rollback(taken)
    return list(guesses[:taken]), masks


def _mask(constraint: TokenConstraint, size: int) -> mx.array | None:
    mask = constraint.mask()
    return None if mask is None else padded_mask(mask, size)


def _allows(mask: mx.array | None, token: int, size: int) -> bool:
    return 0 <= token < size and (mask is None or cast(bool, mask[token].item()))
