"""How many bytes the cache of a sequence may come to need."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlxlm_cache import Cache, checkpoint_prompt_cache

from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.protocols import Model

_BLOCK = 256  # tokens: caches grow in steps of this, and keep room for one more token


@dataclass(frozen=True)
class LayerNeed:
    """Bytes of one cache: so many whatever it holds, and so many for each token up to a bound."""

    fixed: int
    per_token: float
    bound: int | None

    def bytes(self, tokens: int) -> int:
        held = (tokens // _BLOCK + 1) * _BLOCK
        return self.fixed + round(self.per_token * min(held, self.bound or held))


class CacheNeed:
    """Bytes that the caches of one sequence need, by its length.

    Found with one token that goes through the model without being computed. `back` is how
    many tokens must be able to come back, for which windows hold as many more and
    recurrent layers as many states.
    """

    def __init__(
        self,
        model: Model,
        cache: list[Cache],
        quantization: KVQuantization | None = None,
        *,
        back: int = 0,
    ) -> None:
        if back:
            checkpoint_prompt_cache(cache, back)
        model(mx.zeros((1, 1), dtype=mx.uint32), cache=cache)
        leaves = [leaf for layer in cache for leaf in layer.leaves()]
        self._layers = [_need(leaf) for leaf in leaves]
        self._packed = self._layers
        self._start: int | None = None
        if quantization is not None:
            self._start = quantization.start
            how = {"bits": quantization.bits, "group_size": quantization.group_size}
            self._packed = [
                _need(leaf.to_quantized(**how)) if hasattr(leaf, "to_quantized") else need
                for leaf, need in zip(leaves, self._layers, strict=True)
            ]

    def __call__(self, tokens: int) -> int:
        """Return the most that it takes on the way to so many tokens."""
        if self._start is None or tokens < self._start:
            return sum(need.bytes(tokens) for need in self._layers)
        before = sum(need.bytes(self._start) for need in self._layers)
        return max(before, sum(need.bytes(tokens) for need in self._packed))


def _need(cache: Cache) -> LayerNeed:
    if type(cache).update_and_fetch is Cache.update_and_fetch:
        return LayerNeed(_held(cache) * (1 + cache.checkpointed), 0, None)
    held = _held(cache)
    bound = getattr(cache, "max_size", None)
    chunk = getattr(cache, "chunk_size", None)
    if bound is None and chunk is not None:
        bound = chunk + 2 * _BLOCK
    if bound is not None:
        bound += getattr(cache, "slack", 0)
    return LayerNeed(0, held / max(1, cache.size()), bound)


def _held(cache: Cache) -> int:
    return sum(a.nbytes for _, a in _flat(cache.state) if isinstance(a, mx.array))


def _flat(tree: Any) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = tree_flatten(tree)  # type: ignore[assignment]
    return flat
