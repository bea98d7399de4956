"""Which tokens may come next, as a grammar says."""

from typing import Protocol, runtime_checkable

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
