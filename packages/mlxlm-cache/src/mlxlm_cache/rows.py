"""The caches of a model's layers for several sequences: batches that rows join and leave."""

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx

from mlxlm_cache.base import Cache
from mlxlm_cache.cache_list import merged
from mlxlm_cache.errors import CacheNotMergeable, CacheNotTrimmable


def can_merge_prompt_cache(cache: Sequence[Cache]) -> bool:
    """Tell whether every layer can be part of a batch."""
    return all(c.capabilities.merge for c in cache)


def merge_prompt_caches(caches: Sequence[Sequence[Cache]]) -> list[Cache]:
    """Return a batch for each layer, with a row for each of `caches`, which stay as they are.

    Raises CacheNotMergeable, naming the layer, where they do not go together: as when one
    is quantized and another is not.
    """
    if not caches:
        raise CacheNotMergeable("there is no cache to merge")
    layers = {len(cache) for cache in caches}
    if len(layers) > 1:
        raise CacheNotMergeable(f"caches of {sorted(layers)} layers are not of one model")
    batch = []
    for i, layer in enumerate(zip(*caches, strict=True)):
        try:
            batch.append(merged(layer))
        except CacheNotMergeable as error:
            raise CacheNotMergeable(f"layer {i}: {error}") from error
    return batch


def extend_prompt_cache(batch: Sequence[Cache], other: Sequence[Cache]) -> None:
    """Add the rows of `other`, which stays as it is, to each layer."""
    layers: Any = list(zip(batch, other, strict=True))
    for ours, theirs in layers:
        ours.extend(theirs)


def filter_prompt_cache(batch: Sequence[Cache], batch_indices: Iterable[int] | mx.array) -> None:
    """Keep the rows of these indices, in this order, in each layer."""
    listed: Any = batch_indices
    rows = listed.tolist() if isinstance(listed, mx.array) else list(listed)
    layers: Any = batch
    for layer in layers:
        layer.filter(rows)


def extract_prompt_cache(batch: Sequence[Cache], idx: int) -> list[Cache]:
    """Return a row as a prompt cache of its own."""
    layers: Any = batch
    return [layer.extract(idx) for layer in layers]


def prepare_prompt_cache(
    batch: Sequence[Cache],
    *,
    left_padding: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    right_padding: Sequence[int] | None = None,
) -> None:
    """Announce padding in the chunks to come, to each layer: see `Batch.prepare`."""
    layers: Any = batch
    for layer in layers:
        layer.prepare(left_padding=left_padding, lengths=lengths, right_padding=right_padding)


def finalize_prompt_cache(batch: Sequence[Cache]) -> None:
    """Forget the right padding that was announced, now that it has come, in each layer."""
    layers: Any = batch
    for layer in layers:
        layer.finalize()


def copy_prompt_cache(cache: Sequence[Cache]) -> list[Cache]:
    """Return independent caches, which share memory until one is written to."""
    return [c.copy() for c in cache]


def trim_prompt_rows(batch: Sequence[Cache], counts: Sequence[int]) -> list[int]:
    """Take each row's number of latest tokens back from every layer; return how many.

    Raises CacheNotTrimmable, naming the layer and changing none, where one cannot.
    """
    layers: Any = [layer for layer in batch if not layer.empty()]
    tried = []
    for i, layer in enumerate(layers):
        copied = layer.copy()
        try:
            counts = copied.trim_rows(counts)
        except CacheNotTrimmable as error:
            raise CacheNotTrimmable(f"layer {i}: {error}") from error
        tried.append(copied)
    for layer in layers:
        layer.trim_rows(counts)
    return list(counts)
