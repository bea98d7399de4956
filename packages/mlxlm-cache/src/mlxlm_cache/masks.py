"""Which keys each query may attend to. Boolean arrays: True is attend."""

from typing import TYPE_CHECKING, Literal

import mlx.core as mx

if TYPE_CHECKING:
    from mlxlm_cache.base import Cache

Mask = mx.array | Literal["causal"] | None


def create_causal_mask(N: int, offset: int = 0, window_size: int | None = None) -> mx.array:
    """Return a mask of shape (N, offset + N) for queries at `offset`, `offset` + 1, …

    A query sees itself and what came before; with `window_size`, only the latest
    `window_size` of these, itself included.
    """
    check_window(window_size)
    queries = mx.arange(offset, offset + N)[:, None]
    return visible(queries, mx.arange(offset + N), window_size)


def visible(queries: mx.array, keys: mx.array, window_size: int | None) -> mx.array:
    """Compare positions: causal, and no further back than the window."""
    mask = keys <= queries
    if window_size is not None:
        mask = mask & (keys > queries - window_size)
    return mask


def create_attention_mask(
    h: mx.array,
    cache: "Cache | None" = None,
    window_size: int | None = None,
    return_array: bool = False,
) -> Mask:
    """Return the mask for hidden states `h`, (B, L, D), that follow what `cache` holds.

    None where every query sees every key (a single token); "causal" where a fused
    kernel can work it out, unless `return_array`; otherwise a boolean array, (L, keys).
    """
    if cache is None:
        return attention_mask(h.shape[1], 0, window_size, return_array)
    return cache.make_mask(h.shape[1], window_size=window_size, return_array=return_array)


def attention_mask(length: int, offset: int, window_size: int | None, return_array: bool) -> Mask:
    """Return the mask for `length` tokens after `offset` that are all held, in order."""
    check_window(window_size)
    if window_size is not None and offset + length > window_size:
        return create_causal_mask(length, offset, window_size)
    if length == 1:
        return None
    return create_causal_mask(length, offset) if return_array else "causal"


def check_window(window_size: int | None) -> None:
    if window_size is not None and window_size < 1:
        raise ValueError(f"window_size must be 1 or more, not {window_size}")
