"""Prompts on their way into caches: long ones in chunks, short ones together."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlxlm_cache import (
    Cache,
    can_merge_prompt_cache,
    finalize_prompt_cache,
    merge_prompt_caches,
    prepare_prompt_cache,
)

from mlxlm_generate.batch.lane import Lane, states, whole
from mlxlm_generate.batch.response import PromptResponse
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.batch.switch import is_due, quantize
from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.protocols import Model

_async_eval: Callable[..., None] = mx.async_eval


class Prefill:
    """The rows whose prompts are being processed, taking turns.

    Each call of `step` feeds one chunk of one prompt, or several short prompts at once.
    All but the last token of a prompt is fed: the lane that it joins then feeds that.
    """

    def __init__(
        self,
        model: Model,
        quantization: KVQuantization | None,
        make_cache: Callable[[], list[Cache]],
    ) -> None:
        self._model = model
        self._quantization = quantization
        self._make_cache = make_cache
        self.rows: deque[Row] = deque()

    def add(self, row: Row) -> None:
        """Start a row, whose cache is set."""
        row.before = max((cache.tokens_seen for cache in row.cache), default=0)
        self.rows.append(row)

    def remove(self, row: Row) -> None:
        self.rows.remove(row)

    @property
    def nbytes(self) -> int:
        return sum(cache.nbytes for row in self.rows for cache in row.cache)

    def step(
        self, budget: int, together: int, *, wait: bool
    ) -> tuple[list[PromptResponse], list[Lane]]:
        """Feed up to `budget` tokens, of up to `together` prompts, and return what is ready.

        `wait` for it to be computed. Where a prompt fails its row has a `fault`.
        """
        ready = [self._ready(row) for row in list(self.rows) if row.to_prefill == 0]
        prompts = [_progress(row) for lane in ready for row in lane.rows]
        if not self.rows:
            return prompts, ready
        group = self._group(budget, together)
        if len(group) > 1:
            more, lanes = self._feed_group(group, wait)
            return prompts + more, ready + lanes
        row = self.rows[0]
        try:
            prompts.append(self._feed_chunk(row, budget, wait))
        except Exception as error:
            self.rows.remove(row)
            row.fault = error
            return prompts, ready
        if row.fed == row.to_prefill:
            ready.append(self._ready(row))
        else:
            self.rows.rotate(-1)
        return prompts, ready

    def _group(self, budget: int, together: int) -> list[Row]:
        """Return the first row and others like it, if they can be fed whole and at once."""
        if not self._whole(self.rows[0], budget):
            return []
        group: list[Row] = []
        longest = 0
        for row in self.rows:
            if not self._whole(row, budget):
                continue
            longest = max(longest, row.to_prefill)
            if len(group) == together or longest * (len(group) + 1) > budget:
                break
            group.append(row)
        return group

    def _whole(self, row: Row, budget: int) -> bool:
        """Tell whether a row can be fed with others, from nothing to its end."""
        quantized = self._quantization
        return (
            not row.alone
            and row.seen == 0
            and row.request.cache is None
            and row.to_prefill <= budget
            and len(row.boundaries) == 1
            and (quantized is None or len(row.prompt) < quantized.start)
            and can_merge_prompt_cache(row.cache)
        )

    def _feed_group(
        self, group: Sequence[Row], wait: bool
    ) -> tuple[list[PromptResponse], list[Lane]]:
        lengths = [row.to_prefill for row in group]
        longest = max(lengths)
        padded = [
            row.prompt[:n] + [0] * (longest - n) for row, n in zip(group, lengths, strict=True)
        ]
        try:
            batch = merge_prompt_caches([row.cache for row in group])
            padding = [longest - n for n in lengths]
            if any(padding):
                prepare_prompt_cache(batch, lengths=lengths, right_padding=padding)
            self._model(mx.array(padded, dtype=mx.uint32), cache=batch)
            if any(padding):
                finalize_prompt_cache(batch)
            self._settle(batch, wait)
        except Exception:
            # One of them may be to blame: each for itself, from the start.
            for row in group:
                row.alone = True
                row.cache = self._make_cache()
            return [], []
        for row, n in zip(group, lengths, strict=True):
            self.rows.remove(row)
            row.fed, row.cache = n, []
        return [_progress(row) for row in group], [_lane(group, batch, batched=True)]

    def _feed_chunk(self, row: Row, budget: int, wait: bool) -> PromptResponse:
        boundary = next(b for b in row.boundaries if b > row.fed)
        end = min(row.fed + budget, boundary, row.to_prefill)
        chunk = mx.array(row.prompt[row.fed : end], dtype=mx.uint32)
        with whole(row.cache):
            self._model(chunk[None], cache=row.cache)
        row.fed = end
        self._quantize(row)
        self._settle(row.cache, wait)
        return _progress(row)

    def _ready(self, row: Row) -> Lane:
        self.rows.remove(row)
        caches, row.cache = row.cache, []
        return _lane([row], caches, batched=False)

    def _quantize(self, row: Row) -> None:
        how = self._quantization
        if how is not None and is_due(row, how):
            quantize(row.cache, how)
            row.quantized = True

    def _settle(self, caches: Sequence[Cache], wait: bool) -> None:
        if wait:
            mx.eval(states(caches))
            mx.clear_cache()
        else:
            _async_eval(states(caches))


def _progress(row: Row) -> PromptResponse:
    total, end = len(row.prompt), row.fed >= row.to_prefill
    return PromptResponse(
        row.uid,
        (total if end else row.fed, total),
        end_of_segment=end or row.fed in row.boundaries,
        end_of_prompt=end,
    )


def _lane(rows: Sequence[Row], caches: list[Cache], *, batched: bool) -> Lane:
    last: Any = [row.prompt[-1] for row in rows]
    return Lane(rows, caches, batched=batched, tokens=mx.array(last, dtype=mx.uint32))
