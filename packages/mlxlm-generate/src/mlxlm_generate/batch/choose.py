"""From the logits of all rows to their next tokens."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlxlm_sample import RowProcessors, RowSampler, fold_in

from mlxlm_generate.batch.chosen import Chosen
from mlxlm_generate.batch.constraint import padded_mask
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.errors import GenerationError
from mlxlm_generate.logprobs import log_softmax


class WrongShape(GenerationError, ValueError):
    """What a processor or a sampler returned has another shape than it must have."""


@dataclass(frozen=True)
class Place:
    """Where a check of guesses is: the rows whose guesses were right up to there.

    Nothing of somebody's own is called for other rows. `masks` are what constraints
    allow, by row; one without a mask allows all.
    """

    rows: Container[int]
    masks: Mapping[int, mx.array]


class RowChooser:
    """Processes logits and samples, for a fixed list of rows.

    What all rows need is one pass over the batch, and so are the samplers and processors
    of mlxlm-sample, whatever their settings. Those of somebody's own, and constraints, are
    called row by row; an exception in one is put into its row's `fault`, and the row's token
    is then meaningless.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)
        numbered = list(enumerate(self._rows))
        self._processed = [(i, row) for i, row in numbered if row.history is not None]
        self._penalized = [i for i, row in numbered if row.processing is not None]
        self._penalized_rows = mx.array(self._penalized, dtype=mx.int32)
        self._penalties: RowProcessors | None = None
        self._constrained = [(i, row) for i, row in numbered if row.request.constraint]
        self._own = [(i, row) for i, row in numbered if row.sampler is not None]
        self._least = max(row.request.min_tokens for row in self._rows)
        self._sampler = RowSampler([row.options for row in self._rows])
        self._keys = mx.stack([row.key.base for row in self._rows])
        asked = [row.request.logprobs for row in self._rows]
        self._observes = any(request is not None for request in asked)
        self._top = max((n for n in asked if isinstance(n, int)), default=0)
        self._full = [i for i, request in enumerate(asked) if request == "full"]
        self._checked = False

    @property
    def waits(self) -> bool:
        """Whether the tokens before must be known on the host first."""
        return bool(self._constrained)

    @property
    def rewinds(self) -> bool:
        """Whether choices can be taken back: no sampler or processor is somebody's own."""
        return not (self._processed or self._own)

    def forget(self) -> None:
        """Start again from the rows' tokens, after choices that were not taken."""
        self._penalties = None

    def __call__(self, logits: mx.array, fed: mx.array, place: Place | None = None) -> Chosen:
        """Choose from logits (B, V), which came of feeding the tokens `fed` (B,).

        Without a `place` these are all rows' next tokens.
        """
        if self._penalties is None and self._penalized:
            self._penalties = self._make_penalties(fed)
        self._check(logits.shape[-1])
        logits = self._allowed(self._process(self._penalize(logits), place), place)
        logprobs = None
        if self._own or not self._sampler.greedy:
            logprobs = log_softmax(logits)
            tokens = self._draw(logprobs, place)
        else:
            tokens = mx.argmax(logits, axis=-1)
        chosen = Chosen(tokens)
        if self._observes:
            logprobs = log_softmax(logits) if logprobs is None else logprobs
            chosen = self._observe(tokens, logprobs)
        # Last, so that an interrupted call can be made again.
        for i, row in self._processed:
            if place is None or i in place.rows:
                assert row.history is not None
                row.history.update_and_fetch(tokens[i : i + 1])
        if self._penalties is not None:
            self._penalties.append(tokens[self._penalized_rows])
        for row in self._rows:
            row.drawn += 1
        return chosen

    def pending(self) -> list[mx.array]:
        """What must be evaluated at each step, lest its graph grow."""
        own = [row.history.state for _, row in self._processed if row.history is not None]
        return own if self._penalties is None else [*own, *self._penalties.state]

    def _check(self, size: int) -> None:
        if self._checked:
            return
        self._checked = True
        for i, error in self._sampler.errors(size).items():
            self._rows[i].fault = error
        if self._penalties is not None:
            for place, error in self._penalties.errors(size).items():
                self._rows[self._penalized[place]].fault = error

    def _make_penalties(self, fed: mx.array) -> RowProcessors:
        rows = [self._rows[i] for i in self._penalized]
        options = [row.processing for row in rows if row.processing is not None]
        penalties = RowProcessors(options, [row.tokens for row in rows])
        under_way = [row.drawn > row.count for row in rows]  # not known on the host yet
        if any(under_way):
            latest = fed[self._penalized_rows].astype(mx.int32)
            penalties.append(mx.where(mx.array(under_way), latest, -1))
        return penalties

    def _penalize(self, logits: mx.array) -> mx.array:
        if self._penalties is None:
            return logits
        if len(self._penalized) == len(self._rows):
            return self._penalties(logits)
        where = self._penalized_rows
        return mx.put_along_axis(
            logits,
            mx.broadcast_to(where[:, None], (where.size, logits.shape[-1])),
            self._penalties(logits[where]),
            axis=0,
        )

    def _process(self, logits: mx.array, place: Place | None) -> mx.array:
        if not self._processed:
            return logits
        pieces, done = [], 0
        for i, row in self._processed:
            if not _asks(i, row, place):
                continue
            one = logits[i : i + 1]
            try:
                assert row.history is not None
                for process in row.request.logits_processors or ():
                    one = process(row.history.tokens, one)
                _expect(one, (1, logits.shape[-1]), "A logits processor")
            except Exception as error:
                row.fault = error
                one = logits[i : i + 1]
            if done < i:
                pieces.append(logits[done:i])
            pieces.append(one)
            done = i + 1
        if done < len(self._rows):
            pieces.append(logits[done:])
        return mx.concatenate(pieces) if len(pieces) > 1 else pieces[0]

    def _allowed(self, logits: mx.array, place: Place | None) -> mx.array:
        """Rule out what constraints forbid, and stop tokens that come too early."""
        size = logits.shape[-1]
        masks, at = [], []
        for i, row in self._constrained:
            if row.fault is not None or not _asks(i, row, place):
                continue
            try:
                assert row.request.constraint is not None
                mask = row.request.constraint.mask() if place is None else place.masks.get(i)
                if mask is not None:
                    masks.append(padded_mask(mask, size))
                    at.append(i)
            except Exception as error:
                row.fault = error
        if masks:
            where = mx.array(at)
            logits[where] = mx.where(mx.stack(masks), logits[where], -mx.inf).astype(logits.dtype)
        early = (
            [
                (i, row)
                for i, row in enumerate(self._rows)
                if row.drawn < row.request.min_tokens and row.stops
            ]
            if self._least
            else []
        )
        if early:
            ids = sorted(token for token in early[0][1].stops if token < size)
            logits[mx.array([i for i, _ in early])[:, None], mx.array(ids)] = -mx.inf
        return logits

    def _draw(self, logprobs: mx.array, place: Place | None) -> mx.array:
        keys = self._keys
        if not self._sampler.greedy:
            places = mx.array([row.drawn for row in self._rows], dtype=mx.uint32)
            keys = fold_in(keys, places)
        tokens = self._sampler(logprobs, keys)
        for i, row in self._own:
            if not _asks(i, row, place):
                continue
            try:
                assert row.sampler is not None
                token = row.sampler(logprobs[i : i + 1])
                _expect(token, (1,), "A sampler")
                tokens[i : i + 1] = token.astype(tokens.dtype)
            except Exception as error:
                row.fault = error
        return tokens

    def _observe(self, tokens: mx.array, logprobs: mx.array) -> Chosen:
        sampled = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]
        top = None
        if self._top:
            k = min(self._top, logprobs.shape[-1])
            ids = mx.argpartition(-logprobs, k - 1, axis=-1)[:, :k]
            top = ids, mx.take_along_axis(logprobs, ids, axis=-1)
        full = {i: mx.contiguous(logprobs[i]) for i in self._full}
        return Chosen(tokens, sampled, top, full)


def _asks(i: int, row: Row, place: Place | None) -> bool:
    return row.wants_more and (place is None or i in place.rows)


def _expect(array: Any, shape: tuple[int, ...], who: str) -> None:
    if not isinstance(array, mx.array) or array.shape != shape:
        got = array.shape if isinstance(array, mx.array) else type(array).__name__
        raise WrongShape(f"{who} returned {got}, not an array of shape {shape}.")
