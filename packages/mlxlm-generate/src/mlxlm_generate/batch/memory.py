"""How many bytes the caches of requests may come to need."""

from collections.abc import Callable, Sequence

import mlx.core as mx
from mlxlm_cache import Cache, can_checkpoint_prompt_cache
from mlxlm_cache.device import available_memory, working_set

from mlxlm_generate.batch.rows import Row
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.need import CacheNeed
from mlxlm_generate.protocols import Model
from mlxlm_generate.wired import model_bytes

_SHARE = 0.8  # of what is free: activations and other programs need some too


class Budget:
    """Decides whether the caches of requests fit in; `limit` None is most of what is free."""

    def __init__(
        self,
        model: Model,
        limit: int | None,
        make_cache: Callable[[], list[Cache]],
        quantization: KVQuantization | None,
        longest_guess: int,
    ) -> None:
        self._strict = limit is not None
        self._limit = default_budget(model) if limit is None else limit
        self._model, self._make_cache, self._quantization = model, make_cache, quantization
        self._longest = longest_guess
        self._needs: dict[int, CacheNeed] = {}

    def _bytes(self, rows: Sequence[Row]) -> int:
        """Return what rows take in one batch, in which each has the room of the longest."""
        tokens = max(row.may_need for row in rows)
        back = self._longest + 1 if any(row.drafter is not None for row in rows) else 0
        if back not in self._needs:
            cache = self._make_cache()
            able = back if can_checkpoint_prompt_cache(cache) else 0
            self._needs[back] = CacheNeed(self._model, cache, self._quantization, back=able)
        return len(rows) * self._needs[back](tokens + back) + sum(r.drafter_bytes for r in rows)

    def check(self, row: Row) -> None:
        """Raise InvalidOption where a limit was given that a row alone exceeds."""
        if self._strict and self._bytes([row]) > self._limit:
            raise InvalidOption(
                f"A prompt of {len(row.prompt)} tokens with max_tokens="
                f"{row.request.max_tokens} may need {self._bytes([row])} bytes, more "
                f"than memory_budget={self._limit}: raise that, or lower max_tokens."
            )

    def fits(self, running: Sequence[Row], row: Row) -> bool:
        """Tell whether a row may join those that run; where none does, it always may."""
        return not running or self._bytes([*running, row]) <= self._limit


def default_budget(model: Model) -> int:
    """Return the bytes that caches may take on this machine, beside the model."""
    weights = max(model_bytes(model), mx.get_active_memory())
    return max(0, int(_SHARE * min(available_memory(), working_set() - weights)))
