"""What was chosen for the rows of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from mlxlm_generate.batch.rows import Row
from mlxlm_generate.logprobs import NO_LOGPROBS, Logprobs


@dataclass
class Chosen:
    """Tokens (B,) and what was asked about them: lazy arrays."""

    tokens: mx.array
    sampled: mx.array | None = None
    top: tuple[mx.array, mx.array] | None = None
    full: dict[int, mx.array] = field(default_factory=dict)

    def arrays(self) -> list[mx.array]:
        """What to evaluate."""
        others = [a for a in (self.sampled, *(self.top or ())) if a is not None]
        return [self.tokens, *others, *self.full.values()]

    def take(self, rows: Sequence[int]) -> "Chosen":
        """Return the part of some rows."""
        at = mx.array(list(rows), dtype=mx.int32)
        return Chosen(
            self.tokens[at],
            None if self.sampled is None else self.sampled[at],
            None if self.top is None else (self.top[0][at], self.top[1][at]),
            {new: self.full[old] for new, old in enumerate(rows) if old in self.full},
        )

    def read(self) -> "Read":
        """Wait for the arrays and return them as numbers."""
        top: Any = None if self.top is None else tuple(part.tolist() for part in self.top)
        tokens: Any = self.tokens.tolist()
        sampled: Any = None if self.sampled is None else self.sampled.tolist()
        return Read(tokens, sampled, top, self.full)


@dataclass(frozen=True)
class Read:
    """What `Chosen` holds, on the host."""

    tokens: list[int]
    sampled: list[float] | None
    top: tuple[list[list[int]], list[list[float]]] | None
    full: dict[int, mx.array]

    def record(self, i: int, row: Row) -> Logprobs:
        """Return what the request of row `i` asked for."""
        request = row.request.logprobs
        if request is None or self.sampled is None:
            return NO_LOGPROBS
        if request == "full":
            return Logprobs(self.sampled[i], full=self.full[i])
        if request == "sampled" or self.top is None:
            return Logprobs(self.sampled[i])
        pairs = zip(self.top[0][i], self.top[1][i], strict=True)
        likeliest = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
        return Logprobs(self.sampled[i], top=tuple(likeliest[:request]))


def joined(parts: Sequence[tuple[Chosen, int]]) -> Chosen:
    """Join what was chosen; rows that were not observed get zeros, which nobody reads."""
    tokens = mx.concatenate([c.tokens.astype(mx.uint32) for c, _ in parts])
    sampled = None
    if any(c.sampled is not None for c, _ in parts):
        sampled = mx.concatenate(
            [mx.zeros(n) if c.sampled is None else c.sampled for c, n in parts]
        )
    widths = [c.top[0].shape[1] for c, _ in parts if c.top is not None]
    top = None
    if widths:
        most = max(widths)
        ids, values = zip(*(_widened(c, n, most) for c, n in parts), strict=True)
        top = mx.concatenate(list(ids)), mx.concatenate(list(values))
    full, start = {}, 0
    for c, n in parts:
        full.update({start + i: logprobs for i, logprobs in c.full.items()})
        start += n
    return Chosen(tokens, sampled, top, full)


def _widened(chosen: Chosen, rows: int, width: int) -> tuple[mx.array, mx.array]:
    if chosen.top is None:
        return mx.zeros((rows, width), dtype=mx.uint32), mx.full((rows, width), -mx.inf)
    ids, values = chosen.top
    more = [(0, 0), (0, width - ids.shape[1])]
    return mx.pad(ids, more), mx.pad(values, more, constant_values=-mx.inf)


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
