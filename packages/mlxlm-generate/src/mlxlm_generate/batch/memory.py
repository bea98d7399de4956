"""How many bytes the caches of requests may come to need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlxlm_cache import Cache
from mlxlm_cache.device import available_memory, working_set

from mlxlm_generate.batch.rows import Row
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.protocols import Model
from mlxlm_generate.wired import model_bytes

_BLOCK = 256  # tokens: caches grow in steps of this, and keep room for one more token
_SHARE = 0.8  # of what is free: activations and other programs need some too


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

    Found with one token that goes through the model without being computed.
    """

    def __init__(
        self, model: Model, cache: list[Cache], quantization: KVQuantization | None
    ) -> None:
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


class Budget:
    """Decides whether the caches of requests fit in; `limit` None is most of what is free."""

    def __init__(
        self,
        model: Model,
        limit: int | None,
        make_cache: Callable[[], list[Cache]],
        quantization: KVQuantization | None,
    ) -> None:
        self._strict = limit is not None
        self._limit = default_budget(model) if limit is None else limit
        self._model, self._make_cache, self._quantization = model, make_cache, quantization
        self._need: CacheNeed | None = None

    def _bytes(self, rows: int, tokens: int) -> int:
        """Return what a batch takes in which the longest row has so many tokens."""
        if self._need is None:
            self._need = CacheNeed(self._model, self._make_cache(), self._quantization)
        return rows * self._need(tokens)

    def check(self, row: Row) -> None:
        """Raise InvalidOption where a limit was given that a row alone exceeds."""
        if self._strict and self._bytes(1, row.may_need) > self._limit:
            raise InvalidOption(
                f"A prompt of {len(row.prompt)} tokens with max_tokens="
                f"{row.request.max_tokens} may need {self._bytes(1, row.may_need)} bytes, more "
                f"than memory_budget={self._limit}: raise that, or lower max_tokens."
            )

    def fits(self, running: Sequence[Row], row: Row) -> bool:
        """Tell whether a row may join those that run; where none does, it always may."""
        longest = max(other.may_need for other in [*running, row])
        return not running or self._bytes(len(running) + 1, longest) <= self._limit


def _need(cache: Cache) -> LayerNeed:
    if type(cache).update_and_fetch is Cache.update_and_fetch:
        return LayerNeed(cache.nbytes, 0, None)
    held = sum(a.nbytes for _, a in _flat(cache.state) if isinstance(a, mx.array))
    bound = getattr(cache, "max_size", None)
    chunk = getattr(cache, "chunk_size", None)
    if bound is None and chunk is not None:
        bound = chunk + 2 * _BLOCK
    if bound is not None:
        bound += getattr(cache, "slack", 0)
    return LayerNeed(0, held / max(1, cache.size()), bound)


def _flat(tree: Any) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = tree_flatten(tree)  # type: ignore[assignment]
    return flat


def default_budget(model: Model) -> int:
    """Return the bytes that caches may take on this machine, beside the model."""
    weights = max(model_bytes(model), mx.get_active_memory())
    return max(0, int(_SHARE * min(available_memory(), working_set() - weights)))
