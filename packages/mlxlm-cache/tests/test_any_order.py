"""Whatever is done to caches, in whatever order, each token sees what it should (R59)."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheList,
    CacheNotTrimmable,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
    blocks,
    checkpoint_prompt_cache,
    copy_prompt_cache,
    extend_prompt_cache,
    extract_prompt_cache,
    filter_prompt_cache,
    finalize_prompt_cache,
    load_prompt_cache,
    merge_prompt_caches,
    prepare_prompt_cache,
    save_prompt_cache,
    trim_prompt_cache,
    trim_prompt_rows,
)

PACKED = {"group_size": 32, "bits": 8}
PRIME = 10007

STACKS: dict[str, Any] = {
    "windows": lambda: [KVCache(), RotatingKVCache(5), RotatingKVCache(7, keep=3)],
    "packed": lambda: [
        QuantizedKVCache(**PACKED),
        RotatingQuantizedKVCache(6, keep=2, **PACKED),
        RotatingQuantizedKVCache(4, **PACKED),
    ],
    "chunks": lambda: [ChunkedKVCache(4), ConcatenateKVCache(), ChunkedKVCache(3)],
    "recurrent": lambda: [
        ArraysCache(2),
        CacheList(RotatingKVCache(6, keep=1), ArraysCache(2)),
        KVCache(),
    ],
    "mixed": lambda: [
        QuantizedKVCache(**PACKED),
        ChunkedKVCache(4),
        RotatingQuantizedKVCache(6, keep=2, **PACKED),
        ConcatenateKVCache(),
        ArraysCache(2),
        CacheList(RotatingKVCache(5), KVCache()),
        KVCache(),
    ],
    "slack": lambda: [RotatingKVCache(5, slack=3), RotatingKVCache(6, keep=2, slack=2)],
}
Number = st.integers(0, 2**16)


def seen(kind: Any, position: int) -> range | list[int]:
    """Return the positions that a position sees, by the definition of the kind."""
    if isinstance(kind, (RotatingKVCache, RotatingQuantizedKVCache)):
        first = max(0, position + 1 - (kind.max_size - kind.keep))
        return sorted({*range(min(kind.keep, position + 1)), *range(first, position + 1)})
    if isinstance(kind, ChunkedKVCache):
        return range(position // kind.chunk_size * kind.chunk_size, position + 1)
    return range(position + 1)


def folded(tokens: list[int]) -> int:
    state = 0
    for token in tokens:
        state = (3 * state + token) % PRIME
    return state


@dataclass
class Group:
    """Sequences, each the list of its tokens, and the caches that should know them."""

    rows: list[list[int]]
    caches: list[Cache]
    batched: bool
    ahead: int = 0  # tokens that can surely be taken back
    limit: int = 0  # as checkpoint was told


def plain(stored: Any, cache: Any) -> np.ndarray:
    if isinstance(stored, tuple):
        data, scales, biases = stored
        stored = mx.dequantize(data, scales, biases, group_size=cache.group_size, bits=cache.bits)
    return np.rint(np.array(stored)[:, 0, :, 0]).astype(int)


def allowed(mask: Any, rows: int, length: int, size: int) -> np.ndarray:
    """Return a mask in full, (rows, length, size)."""
    if mask is None:
        assert length == 1
        mask = np.ones((1, size), dtype=bool)
    elif isinstance(mask, str):
        mask = np.arange(size) <= np.arange(length)[:, None] + size - length
    else:
        assert mask.dtype == mx.bool_
        mask = np.array(mask)
        mask = mask[:, 0] if mask.ndim == 4 else mask
    return np.broadcast_to(mask, (rows, length, size))


def attend(
    cache: Cache, kind: Cache, tokens: np.ndarray, offsets: list[int], rows: list[list[int]]
) -> None:
    """Feed columns of tokens; check what each sees that belongs to a sequence."""
    count, length = tokens.shape
    mask = cache.make_mask(length)
    position: Any = cache.offset
    mine = np.broadcast_to(np.array(position), count)
    keys = mx.array(np.broadcast_to(tokens[:, None, :, None], (count, 1, length, 32)))
    keys = keys.astype(mx.float32)
    fetched: Any = cache.update_and_fetch(keys, -keys)
    ids, negative = (plain(part, cache) for part in fetched)
    np.testing.assert_array_equal(ids, -negative)
    full = allowed(mask, count, length, ids.shape[1])
    assert full.any(-1).all()  # a softmax over nothing would not be a number
    for i in range(count):
        for j in range(length):
            at = offsets[i] + j
            if 0 <= at < len(rows[i]):
                assert mine[i] + j == at
                expected = [rows[i][p] for p in seen(kind, at)]
                assert sorted(ids[i, full[i, j]].tolist()) == sorted(expected)


def recur(cache: ArraysCache, tokens: np.ndarray) -> None:
    """Do what a recurrent layer does: slot 0 a state, slot 1 the latest two tokens."""
    count, length = tokens.shape
    mask = cache.make_mask(length)
    if mask is not None:
        assert isinstance(mask, mx.array)
        assert mask.shape == (count, length)
    for j in range(length):
        state = cache[0] if cache[0] is not None else mx.zeros((count, 1), dtype=mx.int32)
        latest = cache[1] if cache[1] is not None else mx.zeros((count, 2), dtype=mx.int32)
        token = mx.array(tokens[:, j : j + 1].astype(np.int32))
        new = (3 * state + token) % PRIME
        shifted = mx.concatenate([latest[:, 1:], token], axis=1)
        keep = True if mask is None else mask[:, j : j + 1]
        cache[0] = mx.where(keep, new, state)
        cache[1] = mx.where(keep, shifted, latest)
        if cache.recording:
            cache.advance(1)
    if not cache.recording:
        cache.advance(length)


def check_state(cache: ArraysCache, rows: list[list[int]]) -> None:
    if cache[0] is None or cache[1] is None:
        assert cache.empty()
        assert not any(rows)
        return
    assert cache[0].reshape(-1).tolist() == [folded(row) for row in rows]
    assert cache[1].tolist() == [[0, 0, *row][-2:] for row in rows]


class Caches(RuleBasedStateMachine):
    stack = "windows"

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[Cache] = STACKS[self.stack]()
        self.groups: list[Group] = []
        self.next = 1

    def pick(self, number: int) -> Group:
        return self.groups[number % len(self.groups)]

    def fresh(self, n: int) -> list[int]:
        self.next += n
        return list(range(self.next - n, self.next))

    def run(self, group: Group, tokens: np.ndarray, offsets: list[int]) -> None:
        for cache, kind in zip(group.caches, self.kinds, strict=True):
            self.run_layer(cache, kind, tokens, offsets, group.rows)
        mx.eval([c.state for c in group.caches])

    def run_layer(
        self,
        cache: Cache,
        kind: Cache,
        tokens: np.ndarray,
        offsets: list[int],
        rows: list[list[int]],
    ) -> None:
        if isinstance(cache, CacheList):
            assert isinstance(kind, CacheList)
            for inner, inner_kind in zip(cache, kind, strict=True):
                self.run_layer(inner, inner_kind, tokens, offsets, rows)
        elif isinstance(cache, ArraysCache):
            recur(cache, tokens)
        else:
            attend(cache, kind, tokens, offsets, rows)

    def check(self, group: Group) -> None:
        assert max(map(len, group.rows)) == group.caches[-1].tokens_seen
        for cache in group.caches:
            for leaf in cache.leaves():
                if isinstance(leaf, ArraysCache):
                    check_state(leaf, group.rows)
                else:
                    assert leaf.empty() == (not any(group.rows))
            assert cache.nbytes >= 0

    @precondition(lambda self: len(self.groups) < 4)
    @rule(lengths=st.lists(st.integers(1, 6), max_size=4))
    def start(self, lengths: list[int]) -> None:
        group = Group([[]], STACKS[self.stack](), batched=False)
        self.groups.append(group)
        for length in lengths:
            self.feed_evenly(group, length)

    @precondition(lambda self: len(self.groups) < 4)
    @rule(lengths=st.lists(st.integers(1, 9), min_size=2, max_size=3), cut=st.integers(1, 9))
    def start_padded_on_the_left(self, lengths: list[int], cut: int) -> None:
        """A batch of new prompts, in chunks of `cut`."""
        empty = [STACKS[self.stack]() for _ in lengths]
        caches = merge_prompt_caches(empty)
        longest = max(lengths)
        padding = [longest - n for n in lengths]
        prepare_prompt_cache(caches, left_padding=padding)
        group = Group([self.fresh(n) for n in lengths], caches, batched=True)
        columns = np.array([[0] * p + row for p, row in zip(padding, group.rows, strict=True)])
        for start in range(0, longest, cut):
            part = columns[:, start : start + cut]
            self.run(group, part, [start - p for p in padding])
        self.groups.append(group)
        self.check(group)

    def feed_evenly(self, group: Group, length: int) -> None:
        offsets = [len(row) for row in group.rows]
        new = [self.fresh(length) for _ in group.rows]
        for row, more in zip(group.rows, new, strict=True):
            row += more
        self.run(group, np.array(new), offsets)
        group.ahead = min(group.limit, group.ahead + length)
        self.check(group)

    @precondition(lambda self: self.groups)
    @rule(which=Number, length=st.sampled_from([1, 1, 1, 1, 2, 3, 7]))
    def feed(self, which: int, length: int) -> None:
        self.feed_evenly(self.pick(which), length)

    @precondition(lambda self: any(g.batched for g in self.groups))
    @rule(which=Number, wanted=st.lists(st.integers(0, 9), min_size=6, max_size=6), cut=Number)
    def feed_padded_on_the_right(self, which: int, wanted: list[int], cut: int) -> None:
        batches = [g for g in self.groups if g.batched]
        group = batches[which % len(batches)]
        lengths = wanted[: len(group.rows)]
        longest = max(lengths)
        if longest == 0:
            return
        padding = [longest - n for n in lengths]
        prepare_prompt_cache(group.caches, lengths=lengths, right_padding=padding)
        new = [self.fresh(n) for n in lengths]
        offsets = [len(row) for row in group.rows]
        for row, more in zip(group.rows, new, strict=True):
            row += more
        columns = np.array([row + [0] * p for row, p in zip(new, padding, strict=True)])
        cut = cut % longest + 1
        for start in range(0, longest, cut):
            self.run(group, columns[:, start : start + cut], [o + start for o in offsets])
        finalize_prompt_cache(group.caches)
        group.ahead = 0
        self.check(group)

    @precondition(lambda self: self.groups)
    @rule(which=Number, tokens=st.integers(0, 4))
    def checkpoint(self, which: int, tokens: int) -> None:
        group = self.pick(which)
        if self.stack == "slack":
            return
        checkpoint_prompt_cache(group.caches, tokens)
        group.limit, group.ahead = tokens, min(group.ahead, tokens)
        if not any(group.rows):
            group.ahead = 0

    @precondition(lambda self: self.groups)
    @rule(which=Number, number=Number)
    def trim(self, which: int, number: int) -> None:
        group = self.pick(which)
        used = [c for c in group.caches if not c.empty()]
        assert all(c.trimmable_tokens >= min(group.ahead, c.tokens_seen) for c in used)
        n = number % (min((c.trimmable_tokens for c in used), default=0) + 1)
        n = min(n, number % 8)
        assert trim_prompt_cache(group.caches, n) == min(n, max(map(len, group.rows)))
        group.rows = [row[: max(0, len(row) - n)] for row in group.rows]
        group.ahead = max(0, group.ahead - n)
        self.check(group)

    @precondition(lambda self: self.groups)
    @rule(which=Number)
    def trim_too_much(self, which: int) -> None:
        group = self.pick(which)
        n = max(map(len, group.rows))
        if all(c.empty() or c.can_trim(n) for c in group.caches):
            return
        with pytest.raises(CacheNotTrimmable):
            trim_prompt_cache(group.caches, n)
        self.check(group)

    @precondition(lambda self: any(g.batched for g in self.groups))
    @rule(which=Number, numbers=st.lists(st.integers(0, 4), min_size=6, max_size=6))
    def trim_rows(self, which: int, numbers: list[int]) -> None:
        batches = [g for g in self.groups if g.batched]
        group = batches[which % len(batches)]
        counts = numbers[: len(group.rows)]
        before = [len(row) for row in group.rows]
        try:
            taken = trim_prompt_rows(group.caches, counts)
        except CacheNotTrimmable:
            assert max(counts) > group.ahead
            taken = [0] * len(counts)
        else:
            if any(group.rows):
                assert taken == [min(n, b) for n, b in zip(counts, before, strict=True)]
        group.rows = [row[: len(row) - n] for row, n in zip(group.rows, taken, strict=True)]
        group.ahead = max(0, group.ahead - max(counts))
        self.check(group)

    @precondition(lambda self: self.groups)
    @rule(which=Number)
    def copy(self, which: int) -> None:
        group = self.pick(which)
        rows = [list(row) for row in group.rows]
        copied = Group(rows, copy_prompt_cache(group.caches), group.batched, group.ahead)
        copied.limit = group.limit
        if len(self.groups) < 4:
            self.groups.append(copied)
        else:
            self.groups[self.groups.index(group)] = copied

    @precondition(lambda self: self.groups)
    @rule(which=Number)
    def save_and_load(self, which: int) -> None:
        group = self.pick(which)
        with TemporaryDirectory() as folder:
            file = Path(folder) / "cache.safetensors"
            save_prompt_cache(file, group.caches)
            loaded = load_prompt_cache(file)
        assert [type(c) for c in loaded] == [type(c) for c in group.caches]
        group.caches = loaded
        if any(isinstance(leaf, ArraysCache) for c in loaded for leaf in c.leaves()):
            group.ahead = group.limit = 0  # files hold the present, not what was before
        self.check(group)

    @precondition(lambda self: any(not g.batched for g in self.groups))
    @rule(into=Number)
    def merge(self, into: int) -> None:
        singles = [g for g in self.groups if not g.batched]
        chosen = singles[: into % len(singles) + 1]
        caches = merge_prompt_caches([g.caches for g in chosen])
        rows = [row for g in chosen for row in g.rows]
        self.groups = [g for g in self.groups if not any(g is c for c in chosen)]
        self.groups.append(Group(rows, caches, batched=True))
        self.check(self.groups[-1])

    @precondition(lambda self: sum(g.batched for g in self.groups) > 1)
    @rule()
    def extend(self) -> None:
        ours, theirs = [g for g in self.groups if g.batched][:2]
        if len(ours.rows) + len(theirs.rows) > 6:
            return
        extend_prompt_cache(ours.caches, theirs.caches)
        ours.rows = [*ours.rows, *(list(row) for row in theirs.rows)]
        ours.ahead = ours.limit = 0
        self.check(ours)
        self.check(theirs)

    @precondition(lambda self: any(g.batched for g in self.groups))
    @rule(which=Number, order=st.permutations(range(6)), n=st.integers(1, 6))
    def filter(self, which: int, order: list[int], n: int) -> None:
        batches = [g for g in self.groups if g.batched]
        group = batches[which % len(batches)]
        rows = [i for i in order if i < len(group.rows)][:n]
        filter_prompt_cache(group.caches, rows)
        group.rows = [group.rows[i] for i in rows]
        self.check(group)

    @precondition(lambda self: any(g.batched for g in self.groups) and len(self.groups) < 4)
    @rule(which=Number, row=Number)
    def extract(self, which: int, row: int) -> None:
        batches = [g for g in self.groups if g.batched]
        group = batches[which % len(batches)]
        i = row % len(group.rows)
        caches = extract_prompt_cache(group.caches, i)
        for cache, kind in zip(caches, self.kinds, strict=True):
            if not isinstance(kind, ConcatenateKVCache):
                assert type(cache) is type(kind)
        self.groups.append(Group([list(group.rows[i])], caches, batched=False))
        self.check(self.groups[-1])


@pytest.mark.parametrize("stack", STACKS)
def test_R59_any_order_of_what_can_be_done_equals_a_list(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4)  # so that buffers grow, and lose their front
    machine = type(f"Caches_{stack}", (Caches,), {"stack": stack})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine, settings=settings(max_examples=25, stateful_step_count=25, deadline=None)
    )
