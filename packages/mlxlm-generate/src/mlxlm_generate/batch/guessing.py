"""Guesses of several rows, checked in one pass of the model."""

from time import perf_counter
from typing import Any

import mlx.core as mx
from mlxlm_sample import RowSampler, fold_in

from mlxlm_generate.batch.choose import Chosen
from mlxlm_generate.batch.lane import Lane, whole
from mlxlm_generate.batch.response import TokenResponse
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.logprobs import log_softmax
from mlxlm_generate.protocols import Model
from mlxlm_generate.speculate.check import listed
from mlxlm_generate.speculate.drafter import Draw
from mlxlm_generate.speculate.length import DraftLength
from mlxlm_generate.speculate.model import vocabulary
from mlxlm_generate.speculate.steps import widened


class Guessing:
    """Decodes lanes with guesses where that pays, which is measured for each batch size.

    Sizes from one power of two to the next count as one. A lane decodes plainly where its
    caches hold recurrent state, or where a row has a constraint or a sampler or processor
    of somebody's own.
    """

    def __init__(self, longest: int, quantization: KVQuantization | None) -> None:
        self.longest = longest
        self._quantization = quantization
        self._lengths: dict[int, DraftLength] = {}
        self._vocabulary = 0

    def step(self, lane: Lane, model: Model, out: list[TokenResponse]) -> None:
        """Do what `Lane.step` does, for more than one token of a row where guesses are right."""
        if not any(row.drafter is not None for row in lane.rows):
            lane.step(model, out)
            return
        size = (len(lane) - 1).bit_length()
        length = self._lengths.setdefault(size, DraftLength(self.longest))
        wanted, began, given = length.next(), perf_counter(), len(out)
        able = wanted and not lane.under_way and lane.goes_back and lane.chooser.rewinds
        if not (able and any(row.guesses_now() for row in lane.rows)):
            lane.step(model, out)
            if len(out) > given:
                length.plain(perf_counter() - began)
            return
        lane.read(out)
        if len(out) > given:
            length.waited(perf_counter() - began)
        began = perf_counter()
        self._vocabulary = self._vocabulary or vocabulary(model)
        guesses = [self._guesses(row, wanted) for row in lane.rows]
        drafted = max(map(len, guesses))
        if drafted == 0:
            lane.step(model, out)  # whose tokens the next step gives out
            return
        kept = self._check(lane, model, guesses, out)
        right = [k - 1 for k in kept]
        length.checked(drafted, max(right), perf_counter() - began, sum(right) / len(right) + 1)

    def _guesses(self, row: Row, wanted: int) -> list[int]:
        """Return a row's guesses, no more than can be tokens of its answer or be fed now."""
        if row.drafter is None or row.finish_reason is not None or row.fault is not None:
            return []
        bounds = [wanted, row.longest_guess or self.longest]
        if row.request.max_tokens >= 0:
            bounds.append(row.request.max_tokens - row.count - 1)
        how = self._quantization
        if how is not None and not row.quantized:
            bounds.append(how.start - 1 - row.seen)
        if min(bounds) <= 0:
            return []
        try:
            if not row.guesses_now():
                return []
            guesses = row.drafter.propose(min(bounds), self._draw(row))
            return [int(guess) for guess in listed(guesses)[: min(bounds)]]
        except Exception as error:
            row.fault = error
            return []

    def _draw(self, row: Row) -> Draw:
        sampler, place = RowSampler([row.options]), [row.drawn]

        def draw(logits: mx.array) -> mx.array:
            logits = widened(logits, self._vocabulary)
            if sampler.greedy:
                return mx.argmax(logits, axis=-1)
            key = fold_in(row.key.base[None], mx.array(place, dtype=mx.uint32))
            place[0] += 1
            return sampler(log_softmax(logits), key)

        return draw

    def _check(
        self, lane: Lane, model: Model, guesses: list[list[int]], out: list[TokenResponse]
    ) -> list[int]:
        """Feed each row's latest token and guesses; return how many of these stay fed."""
        rows, choose = lane.rows, lane.chooser
        width = 1 + max(map(len, guesses))
        most = self._vocabulary - 1
        fed = mx.array(
            [
                # A guess that is no token is refused, but must not be looked up.
                [
                    row.tokens[-1],
                    *(min(max(g, 0), most) for g in own),
                    *[0] * (width - 1 - len(own)),
                ]
                for row, own in zip(rows, guesses, strict=True)
            ],
            dtype=mx.uint32,
        )
        lane.checkpoint(self.longest + 1)
        with whole(lane.caches):
            logits = model(fed, cache=lane.caches)
        kept = [0] * len(rows)
        places: list[Chosen] = []
        done = False
        try:
            places = [choose(logits[:, place], fed[:, place]) for place in range(width)]
            mx.eval([array for place in places for array in place.arrays()])
            reads = [place.read() for place in places]
            for i, (row, own) in enumerate(zip(rows, guesses, strict=True)):
                kept[i] = 1
                for read, guess in zip(reads, own, strict=False):
                    ended = row.finish_reason is not None or row.fault is not None
                    if ended or read.tokens[i] != guess:
                        break
                    out.append(row.accept(guess, read.record(i, row), from_draft=True))
                    kept[i] += 1
                row.learn(len(own), kept[i] - 1, self.longest)
            done = True
        finally:
            if not done:  # interrupted: each row's latest token is to be fed again
                kept = [max(0, k - 1) for k in kept]
            lane.take_back([width - k for k in kept])
            for row, k in zip(rows, kept, strict=True):
                row.fed += k
                row.drawn = row.count + done
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


def mixed(places: list[Chosen], at: list[int]) -> Chosen:
    """Return what was chosen for each row at a place of its own."""
    where, rows = mx.array(at), mx.arange(len(at))

    def pick(arrays: list[mx.array]) -> mx.array:
        return mx.stack(arrays)[where, rows]

    tops = [place.top for place in places if place.top is not None]
    sampled = [place.sampled for place in places if place.sampled is not None]
    return Chosen(
        pick([place.tokens for place in places]),
        pick(sampled) if sampled else None,
        (pick([ids for ids, _ in tops]), pick([values for _, values in tops])) if tops else None,
        {i: places[place].full[i] for i, place in enumerate(at) if i in places[place].full},
    )
