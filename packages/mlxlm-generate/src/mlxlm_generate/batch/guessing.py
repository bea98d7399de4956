"""Guesses of several rows, checked in one pass of the model."""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import mlx.core as mx
from mlxlm_sample import RowSampler, fold_in

from mlxlm_generate.batch.choose import Place, RowChooser
from mlxlm_generate.batch.chosen import Chosen, Read, mixed
from mlxlm_generate.batch.constraint import look_ahead
from mlxlm_generate.batch.draft import Drafts, DrawRows
from mlxlm_generate.batch.lane import Lane, whole
from mlxlm_generate.batch.response import TokenResponse
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.logprobs import log_softmax
from mlxlm_generate.protocols import Model
from mlxlm_generate.speculate.check import listed
from mlxlm_generate.speculate.length import DraftLength
from mlxlm_generate.speculate.model import vocabulary
from mlxlm_generate.speculate.steps import widened


class Guessing:
    """Decodes lanes with guesses where that pays, which is measured for each batch size.

    Sizes from one power of two to the next count as one. A lane decodes plainly where
    tokens can never be taken back from its caches. Constraints look ahead along the
    guesses and go back; where a sampler or a processor is somebody's own, whose calls
    can't be taken back, places are chosen one after another.
    """

    def __init__(self, longest: int, quantization: KVQuantization | None, step_size: int) -> None:
        self.longest = longest
        self._drafts = Drafts(longest, step_size)
        self._quantization = quantization
        self.drafted = self.accepted = 0
        self._lengths: dict[int, DraftLength] = {}
        self._vocabulary = 0

    def step(self, lane: Lane, model: Model, out: list[TokenResponse]) -> None:
        """Do what `Lane.step` does, for more than one token of a row where guesses are right."""
        if not any(row.drafter is not None for row in lane.rows):
            lane.step(model, out)
            return
        size = (len(lane) - 1).bit_length()
        length = self._length(size)
        wanted, given = length.next(), len(out)
        able = wanted and not lane.under_way and lane.goes_back
        if able:
            self._drafts.feed(lane.rows)  # their prompts: no time that guesses lose
        began = perf_counter()
        if not (able and any(map(self._is_ready, lane.rows))):
            lane.step(model, out)
            if len(out) > given:
                length.plain(perf_counter() - began)
            return
        lane.read(out)
        if len(out) > given:
            length.waited(perf_counter() - began)
        began = perf_counter()
        self._vocabulary = self._vocabulary or vocabulary(model)
        guesses = self._guesses(lane.rows, wanted)
        masks = [self._masks(row, own) for row, own in zip(lane.rows, guesses, strict=True)]
        drafted = max(map(len, guesses))
        if drafted == 0:
            length.checked(0, 0, perf_counter() - began, 0)
            lane.step(model, out)  # whose tokens the next step gives out
            return
        kept = self._check(lane, model, guesses, masks, out)
        right = [k - 1 for k in kept]
        length.checked(drafted, max(right), perf_counter() - began, sum(right) / len(right) + 1)

    def _length(self, size: int) -> DraftLength:
        if size not in self._lengths:
            others = next(iter(self._lengths.values()), None)
            self._lengths[size] = DraftLength(self.longest, sharing=others)
        return self._lengths[size]

    def _is_ready(self, row: Row) -> bool:
        return self._drafts.ready(row) if row.draft else row.guesses_now()

    def leave(self, row: Row) -> None:
        """Forget a row that is gone."""
        self._drafts.leave(row)

    def _guesses(self, rows: list[Row], wanted: int) -> list[list[int]]:
        """Return each row's guesses, no more than can be tokens of its answer or be fed now."""
        bounds = [self._bound(row, wanted) for row in rows]
        together = [row for row, bound in zip(rows, bounds, strict=True) if row.draft and bound]
        drafted = self._drafts.propose(together, max(bounds), self._draw) if together else {}
        return [
            drafted.get(row.uid, [])[:bound] if row.draft else self._own_guesses(row, bound)
            for row, bound in zip(rows, bounds, strict=True)
        ]

    def _bound(self, row: Row, wanted: int) -> int:
        if row.drafter is None or row.finish_reason is not None or row.fault is not None:
            return 0
        bounds = [wanted, row.longest_guess or self.longest]
        if row.request.max_tokens >= 0:
            bounds.append(row.request.max_tokens - row.count - 1)
        how = self._quantization
        if how is not None and not row.quantized:
            bounds.append(how.start - 1 - row.seen)
        return max(0, min(bounds))

    def _own_guesses(self, row: Row, bound: int) -> list[int]:
        if row.drafter is None or bound == 0:
            return []
        try:
            if not row.guesses_now():
                return []
            draw, place = self._draw([row]), iter(range(bound))
            guesses = row.drafter.propose(bound, lambda logits: draw(logits, next(place)))
            return [int(guess) for guess in listed(guesses)[:bound]]
        except Exception as error:
            row.fault = error
            return []

    def _masks(self, row: Row, guesses: list[int]) -> list[mx.array | None]:
        """Return what a row's constraint allows at each place; it cuts off what it forbids."""
        constraint = row.request.constraint
        if constraint is None or row.finish_reason is not None or row.fault is not None:
            return []
        try:
            guesses[:], masks = look_ahead(constraint, guesses, row.stops, self._vocabulary)
        except Exception as error:
            row.fault = error
            guesses[:], masks = [], []
        return masks

    def _draw(self, rows: list[Row]) -> DrawRows:
        """Return what chooses as the target will, from logits (B, V), at a place ahead."""
        sampler = RowSampler([row.options for row in rows])

        def draw(logits: mx.array, place: int) -> mx.array:
            logits = widened(logits, self._vocabulary)
            if sampler.greedy:
                return mx.argmax(logits, axis=-1)
            places = mx.array([row.drawn + place for row in rows], dtype=mx.uint32)
            keys = fold_in(mx.stack([row.key.base for row in rows]), places)
            return sampler(log_softmax(logits), keys)

        return draw

    def _check(
        self,
        lane: Lane,
        model: Model,
        guesses: list[list[int]],
        masks: list[list[mx.array | None]],
        out: list[TokenResponse],
    ) -> list[int]:
        """Feed each row's latest token and guesses; return how many of these stay fed."""
        rows, choose = lane.rows, lane.chooser
        fed = self._fed(rows, guesses)
        width = fed.shape[1]
        lane.checkpoint(self.longest + 1)
        with whole(lane.caches):
            logits = model(fed, cache=lane.caches)
        before = [row.count for row in rows]
        for row, own in zip(rows, guesses, strict=True):
            row.drafted += len(own)
            self.drafted += len(own)
        right = set(range(len(rows)))  # the rows whose guesses were right so far
        places: list[Chosen] = []
        done = False
        try:
            allowed = [
                {i: m for i, own in enumerate(masks) if (m := _at(own, place)) is not None}
                for place in range(width)
            ]
            for place, read in enumerate(_reads(choose, logits, fed, allowed, right, places)):
                for i in sorted(right):
                    row, own = rows[i], guesses[i]
                    ended = row.finish_reason is not None or row.fault is not None
                    if ended or place == len(own) or read.tokens[i] != own[place]:
                        right.discard(i)
                        row.learn(len(own), place, self.longest)
                    else:
                        out.append(row.accept(own[place], read.record(i, row), from_draft=True))
                if not right:
                    break
            done = True
        finally:
            # Where it was interrupted each row's latest token is to be fed again.
            kept = [row.count - n + done for row, n in zip(rows, before, strict=True)]
            lane.keep(model, fed, kept)
            for row, k in zip(rows, kept, strict=True):
                row.fed += k
                row.chose_ahead(done)
                self.accepted += k - done
            choose.forget()
            latest: Any = [row.tokens[-1] for row in rows]
            lane.go_on_from(
                mixed(places, [k - 1 for k in kept])
                if done
                else Chosen(mx.array(latest, dtype=mx.uint32)),
                readable=done,
            )
        for row in rows:
            if row.fault is not None and row.finish_reason is None:
                out.append(row.failure(row.fault))
        return kept

    def _fed(self, rows: list[Row], guesses: list[list[int]]) -> mx.array:
        """Return each row's latest token and guesses, (B, L)."""
        most, width = self._vocabulary - 1, max(map(len, guesses))
        fed: Any = [
            # A guess that is no token is refused, but must not be looked up.
            [row.tokens[-1], *(min(max(g, 0), most) for g in own), *[0] * (width - len(own))]
            for row, own in zip(rows, guesses, strict=True)
        ]
        return mx.array(fed, dtype=mx.uint32)


def _reads(
    choose: RowChooser,
    logits: mx.array,
    fed: mx.array,
    allowed: list[dict[int, mx.array]],
    right: set[int],
    places: list[Chosen],
) -> Iterator[Read]:
    """Choose at each place and add it to `places`; all at once where that can be taken back."""
    turns = [(logits[:, at], fed[:, at], Place(right, masks)) for at, masks in enumerate(allowed)]
    if choose.rewinds:
        places += [choose(*turn) for turn in turns]
        mx.eval([array for place in places for array in place.arrays()])
        yield from [place.read() for place in places]
    else:
        for turn in turns:
            places.append(choose(*turn))
            mx.eval(places[-1].arrays(), *choose.pending())
            yield places[-1].read()


def _at(masks: list[mx.array | None], place: int) -> mx.array | None:
    return masks[place] if place < len(masks) else None
