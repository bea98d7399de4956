"""Rows whose caches go together, decoded one token ahead."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheNotTrimmable,
    can_checkpoint_prompt_cache,
    can_merge_prompt_cache,
    checkpoint_prompt_cache,
    copy_prompt_cache,
    extend_prompt_cache,
    extract_prompt_cache,
    filter_prompt_cache,
    finalize_prompt_cache,
    merge_prompt_caches,
    prepare_prompt_cache,
    trim_prompt_cache,
    trim_prompt_rows,
)

from mlxlm_generate.batch.choose import RowChooser
from mlxlm_generate.batch.chosen import Chosen, joined
from mlxlm_generate.batch.response import TokenResponse
from mlxlm_generate.batch.rows import Row
from mlxlm_generate.protocols import Model

_async_eval: Callable[..., None] = mx.async_eval

_SETTINGS = ("max_size", "keep", "chunk_size", "group_size", "bits", "width")

Kind = tuple[tuple[Any, ...], ...]


class Lane:
    """Rows and their caches: a batch, or a single row as it would be alone.

    `_current` has each row's latest token, which the caches have not seen: the last of
    its prompt, or (`_readable`) a chosen one that was not given out yet.
    """

    def __init__(
        self, rows: Sequence[Row], caches: list[Cache], *, batched: bool, tokens: mx.array
    ) -> None:
        self.rows = list(rows)
        self.caches = caches
        self.batched = batched
        self._current = Chosen(tokens)
        self._readable = [False] * len(self.rows)
        self._logits: mx.array | None = None
        self._following: Chosen | None = None
        self._chooser: RowChooser | None = None
        self._recurrent: list[ArraysCache] | None = None
        self._checkpointed = 0
        self.kind = kind(caches, batched)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return sum(cache.nbytes for cache in self.caches)

    @property
    def under_way(self) -> bool:
        """Whether a step was interrupted, and the next one goes on with it."""
        return self._logits is not None or self._following is not None

    def step(self, model: Model, out: list[TokenResponse]) -> None:
        """Feed each row's latest token and choose the next, then read the latest into `out`.

        Rows that ended have a `finish_reason`, and are still here. After an interrupt the
        next call goes on from there.
        """
        choose = self.chooser
        if not self.under_way and self._goes_on():
            self._feed(model)
            if choose.waits:
                _async_eval(self._logits)
        if not choose.waits:
            self._choose(choose)
        self.read(out)
        self._choose(choose)
        for row in self.rows:
            if row.fault is not None and row.finish_reason is None:
                out.append(row.failure(row.fault))
        if self._following is not None:
            self._current, self._following = self._following, None
            self._readable = [True] * len(self.rows)

    @property
    def chooser(self) -> RowChooser:
        if self._chooser is None:
            self._chooser = RowChooser(self.rows)
        return self._chooser

    # Going back.

    @property
    def goes_back(self) -> bool:
        """Whether each row can give back a number of tokens of its own."""
        return can_checkpoint_prompt_cache(self.caches)

    def checkpoint(self, tokens: int) -> None:
        """Let up to `tokens` of the tokens to come be taken back."""
        if self._checkpointed != tokens:
            checkpoint_prompt_cache(self.caches, tokens)
            self._checkpointed = tokens

    def keep(self, model: Model, fed: mx.array, counts: Sequence[int]) -> None:
        """Take back all but each row's first ones of the latest tokens, `fed` (B, L)."""
        width = fed.shape[1]
        try:
            self.take_back([width - n for n in counts])
        except CacheNotTrimmable:
            # A state that cannot be had at this place is made again from that before.
            self.take_back([width] * len(counts))
            self._feed_again(model, fed, counts)
        _async_eval(self._recurrent_states())

    def take_back(self, counts: Sequence[int]) -> None:
        """Take each row's number of latest tokens back. Raises CacheNotTrimmable."""
        if not any(counts):
            return
        if self.batched:
            trim_prompt_rows(self.caches, counts)
        else:
            trim_prompt_cache(self.caches, counts[0])

    def _feed_again(self, model: Model, fed: mx.array, counts: Sequence[int]) -> None:
        most = max(counts)
        padding = [most - n for n in counts]
        if any(padding):
            prepare_prompt_cache(self.caches, lengths=counts, right_padding=padding)
        if most:
            model(fed[:, :most], cache=self.caches)
        if any(padding):
            finalize_prompt_cache(self.caches)
        _async_eval(states(self.caches))

    def go_on_from(self, chosen: Chosen, *, readable: bool) -> None:
        """Set each row's latest token, which the caches have not seen."""
        self._current, self._readable = chosen, [readable] * len(self.rows)

    def _goes_on(self) -> bool:
        """Tell whether any row wants another token, or its cache to have seen the last."""
        return not all(
            readable and row.ends_at_next and not row.request.keep_cache
            for row, readable in zip(self.rows, self._readable, strict=True)
        )

    def _feed(self, model: Model) -> None:
        with whole(self.caches):
            logits = model(self._current.tokens[:, None], cache=self.caches)[:, -1]
        self._logits = logits
        for row in self.rows:
            row.fed += 1

    def _choose(self, choose: RowChooser) -> None:
        if self._logits is None:
            return
        following = choose(self._logits, self._current.tokens)
        self._following, self._logits = following, None  # first: an interrupt chooses no twice
        _async_eval(*following.arrays(), *choose.pending(), *self._recurrent_states())

    def _recurrent_states(self) -> list[mx.array]:
        """State that no token depends on before the next step."""
        return [
            slot for leaf in self._recurrent_leaves() for slot in leaf.slots if slot is not None
        ]

    def _recurrent_leaves(self) -> list[ArraysCache]:
        if self._recurrent is None:
            leaves = [leaf for cache in self.caches for leaf in cache.leaves()]
            self._recurrent = [leaf for leaf in leaves if isinstance(leaf, ArraysCache)]
        return self._recurrent

    def read(self, out: list[TokenResponse]) -> None:
        """Give out what was chosen for the rows, where it wasn't yet."""
        if not any(self._readable):
            return
        read = self._current.read()
        for i, row in enumerate(self.rows):
            if self._readable[i]:
                self._readable[i] = False
                out.append(row.accept(read.tokens[i], read.record(i, row)))

    def extract(self, i: int) -> list[Cache]:
        """Return a row's prompt cache."""
        if self.batched:
            caches = extract_prompt_cache(self.caches, i)
        else:
            caches = copy_prompt_cache(self.caches)
        if self._checkpointed:
            checkpoint_prompt_cache(caches, 0)
        _async_eval(states(caches))
        return caches

    def leave(self, gone: Sequence[int]) -> None:
        """Let rows go."""
        kept = [i for i in range(len(self.rows)) if i not in set(gone)]
        if len(kept) == len(self.rows):
            return
        if kept:
            self._keep(kept)
        else:
            self.rows, self.caches, self._readable = [], [], []

    def split(self, some: Sequence[int]) -> "Lane":
        """Let rows go, and return them as a lane of their own."""
        caches = copy_prompt_cache(self.caches)
        other = Lane(self.rows, caches, batched=self.batched, tokens=self._current.tokens)
        other._current, other._readable = self._current, list(self._readable)
        other._checkpointed = self._checkpointed
        other._logits, other._following = self._logits, self._following
        other._keep(list(some))
        self.leave(some)
        return other

    def _keep(self, kept: list[int]) -> None:
        if kept == list(range(len(self.rows))):
            return
        if len(kept) == 1:
            self.caches = extract_prompt_cache(self.caches, kept[0])
            self.batched = False
        else:
            filter_prompt_cache(self.caches, kept)
        self.rows = [self.rows[i] for i in kept]
        self._readable = [self._readable[i] for i in kept]
        self._current = self._current.take(kept)
        if self._following is not None:
            self._following = self._following.take(kept)
        if self._logits is not None:
            self._logits = self._logits[mx.array(kept)]
        self._changed()

    def join(self, others: Sequence["Lane"]) -> None:
        """Take over the rows of lanes of the same kind."""
        singles = [lane for lane in others if not lane.batched]
        batches = [lane for lane in others if lane.batched]
        stacks = [lane.caches for lane in singles]
        if not self.batched:
            self.caches = merge_prompt_caches([self.caches, *stacks])
        elif stacks:
            extend_prompt_cache(self.caches, merge_prompt_caches(stacks))
        self._checkpointed = max(lane._checkpointed != 0 for lane in [self, *others])
        for lane in batches:
            extend_prompt_cache(self.caches, lane.caches)
        self.batched = True
        lanes = [self, *singles, *batches]
        self._current = joined([(lane._current, len(lane)) for lane in lanes])
        self.rows = [row for lane in lanes for row in lane.rows]
        self._readable = [readable for lane in lanes for readable in lane._readable]
        self._changed()

    def _changed(self) -> None:
        self._chooser = self._recurrent = None
        self._checkpointed = -1 if self._checkpointed else 0  # the caches are others
        _async_eval(states(self.caches), *self._current.arrays())


def kind(caches: Sequence[Cache], batched: bool) -> Kind | None:
    """Return what has to be equal for caches to be one batch; None where they never are."""
    if not batched:
        if not can_merge_prompt_cache(caches):
            return None
        caches = merge_prompt_caches([caches])
    leaves = [leaf for cache in caches for leaf in cache.leaves()]
    return tuple((type(leaf), *(getattr(leaf, s, None) for s in _SETTINGS)) for leaf in leaves)


def states(caches: Sequence[Cache]) -> list[Any]:
    """The arrays that caches keep, to evaluate."""
    return [cache.state for cache in caches]


@contextmanager
def whole(caches: Sequence[Cache]) -> Iterator[None]:
    """On an exception, take back what some layers have seen and others not."""
    before = [cache.tokens_seen for cache in caches]
    try:
        yield
    except BaseException:
        for cache, tokens in zip(caches, before, strict=True):
            excess = cache.tokens_seen - tokens
            if excess and cache.can_trim(excess):
                cache.trim(excess)
        raise
