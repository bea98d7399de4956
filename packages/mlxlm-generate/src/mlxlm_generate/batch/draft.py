"""Draft models, each decoding ahead for all rows that have it at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, CacheNotTrimmable, finalize_prompt_cache, prepare_prompt_cache

from mlxlm_generate.batch.lane import Lane, states
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.kv import working_cache
from mlxlm_generate.launch import async_eval
from mlxlm_generate.speculate.check import matching
from mlxlm_generate.speculate.model import ModelDrafter, vocabulary

DrawRows = Callable[[mx.array, int], mx.array]
"""Logits (B, V) and how many places ahead they are, to token ids (B,): see `Draw`."""


@dataclass
class _Following:
    """How far the draft's cache of a row is."""

    caches: list[Cache]
    """Until the row is in a lane."""
    fed: int = 0
    """The first of the row's tokens, those in the cache."""
    ahead: list[int] = field(default_factory=list)
    """Guesses in the cache after these."""


class Drafts:
    """The draft models of all rows."""

    def __init__(self, longest: int, step_size: int) -> None:
        self._longest, self._step_size = longest, step_size
        self._drafts: dict[tuple[int, int | None], Draft] = {}

    def feed(self, rows: Sequence[Row]) -> None:
        """Feed a chunk of the prompts that drafts have not seen yet."""
        for drafter, own in self._parted(rows):
            try:
                self._draft(drafter).feed(own, self._step_size)
            except Exception as error:
                for row in own:
                    row.fault = error

    def ready(self, row: Row) -> bool:
        """Tell whether the draft of a row has seen its prompt."""
        if row.draft is None or row.finish_reason is not None or row.fault is not None:
            return False
        draft = self._drafts.get(_key(row.draft))
        following = None if draft is None else draft.following.get(row.uid)
        return following is not None and not following.caches

    def propose(
        self, rows: Sequence[Row], count: int, draw: Callable[[list[Row]], DrawRows]
    ) -> dict[int, list[int]]:
        """Return `count` guesses for each row whose draft has seen its prompt, by uid."""
        guesses: dict[int, list[int]] = {}
        for drafter, own in self._parted(rows):
            try:
                guesses.update(self._draft(drafter).propose(own, count, draw))
            except Exception as error:
                for row in own:
                    row.fault = error
        return guesses

    def leave(self, row: Row) -> None:
        """Forget a row that is gone, and a model that has none left."""
        if row.draft is None:
            return
        key = _key(row.draft)
        draft = self._drafts.get(key)
        if draft is not None:
            draft.leave(row)
            if not draft.following:
                del self._drafts[key]

    def _draft(self, drafter: ModelDrafter) -> "Draft":
        key = _key(drafter)
        if key not in self._drafts:
            self._drafts[key] = Draft(drafter, self._longest)
        return self._drafts[key]

    def _parted(self, rows: Iterable[Row]) -> list[tuple[ModelDrafter, list[Row]]]:
        """Return the rows that go on, parted by their models, with one drafter of each."""
        parts: dict[tuple[int, int | None], tuple[ModelDrafter, list[Row]]] = {}
        for row in rows:
            if row.draft is not None and row.finish_reason is None and row.fault is None:
                parts.setdefault(_key(row.draft), (row.draft, []))[1].append(row)
        return list(parts.values())


def _key(drafter: ModelDrafter) -> tuple[int, int | None]:
    return id(drafter.model), drafter.max_kv_size


class Draft:
    """One draft model, and its caches of some rows: in lanes once it has seen their prompts."""

    def __init__(self, drafter: ModelDrafter, longest: int) -> None:
        self._model, self._max_kv_size = drafter.model, drafter.max_kv_size
        self._most = vocabulary(drafter.model) - 1
        self._longest = longest
        self._lanes: list[Lane] = []
        self.following: dict[int, _Following] = {}

    def feed(self, rows: Sequence[Row], budget: int) -> None:
        """Feed up to `budget` tokens of prompts: all but a row's latest token."""
        for row in rows:
            if row.uid not in self.following:
                self.following[row.uid] = self._fresh()
            following = self.following[row.uid]
            left = min(budget, len(row.tokens) - 1 - following.fed)
            if not following.caches or left < 0:
                continue
            if left:
                chunk = self._known([row.tokens[following.fed : following.fed + left]])
                self._model(chunk, cache=following.caches)
                async_eval(states(following.caches))
                following.fed += left
                budget -= left
            if following.fed == len(row.tokens) - 1:
                none = mx.zeros((1,), dtype=mx.uint32)
                self._lanes.append(Lane([row], following.caches, batched=False, tokens=none))
                following.caches = []

    def propose(
        self, rows: Sequence[Row], count: int, draw: Callable[[list[Row]], DrawRows]
    ) -> dict[int, list[int]]:
        guesses: dict[int, list[int]] = {}
        for lane in self._arranged({row.uid for row in rows}):
            try:
                guesses.update(self._guesses(lane, count, draw(lane.rows)))
            except BaseException:
                self._start_again(lane)
                raise
        return guesses

    def leave(self, row: Row) -> None:
        lane = next((lane for lane in self._lanes if row in lane.rows), None)
        if lane is not None and self._settle(lane):
            lane.leave([lane.rows.index(row)])
            if not lane.rows:
                self._lanes.remove(lane)
        self.following.pop(row.uid, None)

    def _arranged(self, asked: set[int]) -> list[Lane]:
        """Return lanes of just these rows, as few as there can be."""
        parts: dict[object, list[Lane]] = {}
        for lane in list(self._lanes):
            there = [i for i, row in enumerate(lane.rows) if row.uid in asked]
            if not there or not self._settle(lane):
                continue
            if len(there) < len(lane):
                lane = lane.split(there)
                self._lanes.append(lane)
            parts.setdefault(id(lane) if lane.kind is None else lane.kind, []).append(lane)
        for first, *others in parts.values():
            if others:
                first.join(others)
                self._lanes = [lane for lane in self._lanes if lane not in others]
        return [first for first, *_ in parts.values()]

    def _guesses(self, lane: Lane, count: int, draw: DrawRows) -> dict[int, list[int]]:
        rows = lane.rows
        settled = [row.tokens[self.following[row.uid].fed :] for row in rows]
        lengths = [len(tokens) for tokens in settled]
        padding = [max(lengths) - n for n in lengths]
        fed = self._known([t + [0] * n for t, n in zip(settled, padding, strict=True)])
        lane.checkpoint(self._longest + 1)
        if any(padding):
            prepare_prompt_cache(lane.caches, lengths=lengths, right_padding=padding)
        logits = self._model(fed, cache=lane.caches)
        if any(padding):
            finalize_prompt_cache(lane.caches)
        logits = logits[mx.arange(len(rows)), mx.array(lengths) - 1]
        drawn: list[mx.array] = []
        while True:
            drawn.append(draw(logits, len(drawn)).astype(mx.uint32))
            async_eval(drawn[-1])
            if len(drawn) == count:
                break
            tokens = mx.minimum(drawn[-1], self._most)[:, None]
            logits = self._model(tokens, cache=lane.caches)[:, -1]
        guesses: Any = mx.stack(drawn, axis=1).tolist()
        async_eval(states(lane.caches))
        for row, own in zip(rows, guesses, strict=True):
            following = self.following[row.uid]
            following.fed, following.ahead = len(row.tokens), own[:-1]
        return {row.uid: own for row, own in zip(rows, guesses, strict=True)}

    def _settle(self, lane: Lane) -> bool:
        """Take back what did not come true; return whether the lane is still there."""
        counts = []
        for row in lane.rows:
            following = self.following[row.uid]
            fed, tokens = following.fed, len(row.tokens)
            right = matching(following.ahead, row.tokens[fed:])
            keep = min(fed + right, tokens - 1)  # the latest is fed for its logits
            counts.append(fed + len(following.ahead) - keep)
            following.fed, following.ahead = keep, []
        try:
            lane.take_back(counts)
        except CacheNotTrimmable:
            self._start_again(lane)
            return False
        return True

    def _start_again(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        for row in lane.rows:
            self.following[row.uid] = self._fresh()

    def _fresh(self) -> _Following:
        return _Following(working_cache(self._model, None, self._max_kv_size, None))

    def _known(self, tokens: list[list[int]]) -> mx.array:
        """Return tokens with those that the draft has none of replaced by its last."""
        return mx.minimum(mx.array(tokens, dtype=mx.uint32), self._most)
