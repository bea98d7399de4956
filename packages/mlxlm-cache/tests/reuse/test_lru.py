import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheList,
    CacheMismatch,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    LRUPromptCache,
    QuantizedKVCache,
    RotatingKVCache,
)

Helper = Callable[..., Any]


@pytest.fixture
def lru() -> LRUPromptCache:
    return LRUPromptCache(max_size=4, max_bytes=2**30)


def test_exact_shorter_longer_and_no_match(
    lru: LRUPromptCache, stack: Helper, holds: Helper
) -> None:
    assert lru.fetch_nearest_cache("m", [1, 2]) == (None, [1, 2])
    prompt = list(range(1, 40))
    lru.insert_cache("m", prompt, stack(prompt))
    for tokens, length in (
        ([*prompt, 50, 51], 39),  # the entry is shorter
        ([*prompt[:20], 50], 20),  # the entry is longer, and differs
        (prompt[:20], 19),  # the entry is longer
        (prompt, 38),  # exact: a token is left to compute
    ):
        cache, rest = lru.fetch_nearest_cache("m", tokens)
        assert holds(cache, tokens[:length])
        assert rest == tokens[length:]
    assert lru.fetch_nearest_cache("m", [9, 9])[0] is None
    assert lru.fetch_nearest_cache("other", prompt)[0] is None


def test_R18_a_one_token_prefix_matches(lru: LRUPromptCache, stack: Helper, holds: Helper) -> None:
    lru.insert_cache("m", [7], stack([7]))
    cache, rest = lru.fetch_nearest_cache("m", [7, 8, 9])
    assert holds(cache, [7])
    assert rest == [8, 9]
    assert lru.fetch_nearest_cache("m", [7]) == (None, [7])


def test_a_whole_prompt_hit_replayed_twice(
    lru: LRUPromptCache, stack: Helper, holds: Helper, feed: Helper
) -> None:
    prompt = list(range(300))
    lru.insert_cache("m", prompt, stack(prompt))
    for answer in ([501, 502], [601, 602, 603]):
        cache, rest = lru.fetch_nearest_cache("m", prompt)
        assert cache is not None
        assert rest == [299]
        feed(cache, [*rest, *answer])
        assert holds(cache, [*prompt, *answer])
        lru.insert_cache("m", [*prompt, *answer], cache)
    cache, rest = lru.fetch_nearest_cache("m", [*prompt, 601, 602, 603, 1])
    assert holds(cache, [*prompt, 601, 602, 603])


def test_several_go_on_from_one_entry_at_once(
    lru: LRUPromptCache, stack: Helper, holds: Helper, feed: Helper
) -> None:
    prompt = list(range(300))
    lru.insert_cache("m", prompt, stack(prompt), cache_type="system")
    askers = [lru.fetch_nearest_cache("m", [*prompt, 500 + i])[0] for i in range(3)]
    for step in range(2):
        for i, cache in enumerate(askers):
            assert cache is not None
            feed(cache, [500 + i + 10 * step])
    for i, cache in enumerate(askers):
        assert holds(cache, [*prompt, 500 + i, 510 + i])
    assert holds(lru.fetch_nearest_cache("m", [*prompt, 1])[0], prompt)


def test_an_entry_evicted_while_in_use_stays_whole(
    lru: LRUPromptCache, stack: Helper, holds: Helper, feed: Helper
) -> None:
    prompt = list(range(300))
    lru.insert_cache("m", prompt, stack(prompt))
    cache, _ = lru.fetch_nearest_cache("m", [*prompt, 1])
    assert cache is not None
    feed(cache, [1])
    lru.clear()
    assert (len(lru), lru.nbytes) == (0, 0)
    feed(cache, [2])
    assert holds(cache, [*prompt, 1, 2])
    lru.insert_cache("m", [*prompt, 1, 2], cache)
    assert holds(lru.fetch_nearest_cache("m", [*prompt, 1, 2, 3])[0], [*prompt, 1, 2])


def test_the_caller_may_go_on_with_what_is_stored(
    lru: LRUPromptCache, stack: Helper, holds: Helper, feed: Helper
) -> None:
    cache = stack([1, 2, 3])
    lru.insert_cache("m", [1, 2, 3], cache, cache_type="system")
    feed(cache, [4])
    lru.insert_cache("m", [1, 2, 3, 4], cache, cache_type="user")
    for c in cache:
        c.trim(3)
    feed(cache, [8, 9])
    assert holds(lru.fetch_nearest_cache("m", [1, 2, 3, 7])[0], [1, 2, 3])
    assert holds(lru.fetch_nearest_cache("m", [1, 2, 3, 4, 7])[0], [1, 2, 3, 4])


@pytest.mark.parametrize("length", [2, 4])
def test_R17_a_cache_of_other_tokens_is_refused(
    lru: LRUPromptCache, length: int, stack: Helper
) -> None:
    with pytest.raises(CacheMismatch, match=f"key has {length} tokens, but KVCache has seen 3"):
        lru.insert_cache("m", list(range(length)), stack([1, 2, 3]))
    with pytest.raises(CacheMismatch, match="has seen none"):
        lru.insert_cache("m", [1], [KVCache()])
    with pytest.raises(ValueError, match="must not be empty"):
        lru.insert_cache("m", [], stack([1]))
    with pytest.raises(ValueError, match="cache_type must be one of"):
        lru.insert_cache("m", [1], stack([1]), cache_type="tool")  # type: ignore[arg-type]
    assert len(lru) == 0


def test_R17_one_layer_of_other_tokens_is_enough_to_refuse(
    lru: LRUPromptCache, stack: Helper
) -> None:
    cache = stack([1, 2, 3])
    cache[2].trim(1)
    with pytest.raises(CacheMismatch, match="has seen 2"):
        lru.insert_cache("m", [1, 2, 3], cache)


class Lying(KVCache):
    """Says that it can take tokens back, and takes half as many."""

    def trim(self, n: int) -> int:
        return super().trim(n // 2)


def test_R17_a_cache_that_trims_wrongly_is_not_served(
    lru: LRUPromptCache, caplog: pytest.LogCaptureFixture, stack: Helper, holds: Helper
) -> None:
    lru.insert_cache("m", [1], stack([1]), cache_type="system")
    lru.insert_cache("m", [1, 2, 3, 4, 5], stack([1, 2, 3, 4, 5], Lying))
    cache, rest = lru.fetch_nearest_cache("m", [1, 2, 9])
    assert holds(cache, [1])
    assert rest == [2, 9]
    assert "dropped 5 tokens" in caplog.text
    assert len(lru) == 1


def test_R17_a_slid_chunked_cache_serves_no_other_tokens(
    lru: LRUPromptCache, stack: Helper, feed: Helper
) -> None:
    tokens = list(range(1000))
    cache = stack([], lambda: ChunkedKVCache(8))
    for start in range(0, 1000, 50):
        feed(cache, tokens[start : start + 50])
    assert cache[0].size() < 1000  # it no longer holds its first tokens
    with pytest.raises(CacheMismatch, match="key has 50 tokens, but ChunkedKVCache has seen 1000"):
        lru.insert_cache("m", tokens[:50], cache)
    lru.insert_cache("m", tokens, cache)
    assert lru.fetch_nearest_cache("m", [*tokens[:300], 7])[0] is None
    fetched, rest = lru.fetch_nearest_cache("m", [*tokens, 7])
    assert fetched is not None
    assert (fetched[0].offset, rest) == (1000, [7])
    feed(fetched, rest)
    feed(cache, rest)
    for ours, theirs in zip(fetched, cache, strict=True):
        assert mx.array_equal(ours.state[0], theirs.state[0])


def test_R17_a_batch_is_refused(lru: LRUPromptCache, stack: Helper) -> None:
    one, other = stack([1, 2]), stack([1, 3])
    batch = [KVCache.merge(pair) for pair in zip(one, other, strict=True)]
    with pytest.raises(CacheMismatch, match="BatchKVCache holds a batch: extract"):
        lru.insert_cache("m", [1, 2], batch)
    lru.insert_cache("m", [1, 3], [c.extract(1) for c in batch])
    assert lru.fetch_nearest_cache("m", [1, 3, 4])[1] == [4]


def recurrent(tokens: list[int]) -> list[Cache]:
    """Return a hybrid stack: attention, a recurrence that counts, and one that does not."""
    cache: list[Cache] = [KVCache(), CacheList(ArraysCache(1), KVCache()), ArraysCache(2)]
    go_on(cache, tokens)
    return cache


def go_on(cache: Any, tokens: list[int]) -> None:
    attention, both, state = cache
    for token in tokens:
        x = mx.full((1, 1, 1, 32), token, dtype=mx.float32)
        attention.update_and_fetch(x, x)
        both[1].update_and_fetch(x, x)
        both[0][0] = x[0] if both[0][0] is None else both[0][0] * 0.5 + x[0]
        both[0].advance(1)
        state[1] = x[0] if state[1] is None else state[1] * 0.25 + x[0]


def test_a_recurrent_stack_is_reused_from_the_boundaries_that_were_stored(
    lru: LRUPromptCache,
) -> None:
    system, user, answer = [1, 2, 3], [4, 5], [6, 7, 8]
    cache = recurrent(system)
    lru.insert_cache("m", system, cache, cache_type="system")
    go_on(cache, user)
    lru.insert_cache("m", system + user, cache, cache_type="user")
    go_on(cache, answer)
    lru.insert_cache("m", system + user + answer, cache)
    for tokens, length in (
        ([*system, *user, *answer, 9], 8),
        ([*system, *user, *answer], 5),
        ([*system, *user, 9], 5),
        ([*system, 4, 9], 3),
        ([*system, 9], 3),
    ):
        fetched, rest = lru.fetch_nearest_cache("m", tokens)
        assert fetched is not None
        assert rest == tokens[length:]
        go_on(fetched, rest)
        expected: Any = recurrent(tokens)
        both: Any = fetched[1]
        state: Any = fetched[2]
        assert mx.array_equal(fetched[0].state[0], expected[0].state[0])
        assert mx.array_equal(both[0][0], expected[1][0][0])
        assert mx.array_equal(state[1], expected[2][1])
    assert lru.fetch_nearest_cache("m", [1, 2, 9])[0] is None


def test_a_wrapped_window_serves_only_what_goes_on_from_it(
    lru: LRUPromptCache, stack: Helper, feed: Helper
) -> None:
    def window() -> Cache:
        return RotatingKVCache(8, keep=2)

    cache = stack([1, 2, 3], window)
    lru.insert_cache("m", [1, 2, 3], cache, cache_type="system")
    feed(cache, list(range(4, 21)))
    tokens = list(range(1, 21))
    lru.insert_cache("m", tokens, cache)
    fetched, rest = lru.fetch_nearest_cache("m", [*tokens, 5])
    assert fetched is not None
    assert (fetched[0].offset, rest) == (20, [5])
    assert [mx.array_equal(a, b) for a, b in zip(fetched[0].state, cache[0].state, strict=True)]
    fetched, rest = lru.fetch_nearest_cache("m", tokens)  # a boundary makes its prefix reusable
    assert fetched is not None
    assert (fetched[0].offset, rest) == (3, tokens[3:])


def test_R18_the_least_recently_used_goes_first(lru: LRUPromptCache, stack: Helper) -> None:
    for i in range(4):
        lru.insert_cache("m", [i, 1], stack([i, 1]))
    assert lru.fetch_nearest_cache("m", [0, 1, 2])[0] is not None
    lru.insert_cache("m", [9, 1], stack([9, 1]))
    assert lru.fetch_nearest_cache("m", [0, 1, 2])[0] is not None
    assert lru.fetch_nearest_cache("m", [1, 1, 2])[0] is None


def test_types_are_evicted_in_their_order(lru: LRUPromptCache, stack: Helper) -> None:
    lru.insert_cache("m", [1], stack([1]), cache_type="system")
    lru.insert_cache("m", [2], stack([2]), cache_type="user")
    lru.insert_cache("m", [3], stack([3]), cache_type="assistant")
    sequence = []
    while len(lru):
        lru.trim_to(n_sequences=len(lru) - 1)
        sequence.append([t for t, s in lru.stats_by_type().items() if s["n_sequences"]])
    assert sequence == [["user", "system"], ["system"], []]


def test_a_type_with_fewer_entries_than_the_next_is_spared(stack: Helper) -> None:
    lru = LRUPromptCache(max_size=10, max_bytes=2**30)
    lru.insert_cache("m", [1], stack([1]), cache_type="assistant")
    for i in range(2, 5):
        lru.insert_cache("m", [i], stack([i]), cache_type="user")
    lru.trim_to(n_sequences=3)
    stats = lru.stats_by_type()
    assert (stats["assistant"]["n_sequences"], stats["user"]["n_sequences"]) == (1, 2)


def test_an_entry_stands_in_for_its_prefixes_but_not_for_longer_lived_ones(
    lru: LRUPromptCache, stack: Helper
) -> None:
    cache = stack([1])
    for n, cache_type in ((1, "assistant"), (2, "system"), (3, "user"), (4, "assistant")):
        tokens = list(range(1, n + 1))
        lru.insert_cache("m", tokens, stack(tokens), cache_type=cache_type)  # type: ignore[arg-type]
    counts = {t: s["n_sequences"] for t, s in lru.stats_by_type().items()}
    assert counts == {"assistant": 1, "user": 1, "system": 1}
    del cache
    lru.insert_cache("m", [1, 2], stack([1, 2]))  # the same tokens again: it stays what it was
    assert lru.stats_by_type()["system"]["n_sequences"] == 1


def test_R20_bytes_are_counted_truly_and_shared_ones_once(
    lru: LRUPromptCache, stack: Helper, feed: Helper
) -> None:
    cache = stack(list(range(300)))
    nbytes = sum(c.nbytes for c in cache)
    lru.insert_cache("m", list(range(300)), cache, cache_type="system")
    feed(cache, [300, 301])
    lru.insert_cache("m", list(range(302)), cache)
    assert (len(lru), lru.nbytes) == (2, nbytes)
    stats = lru.stats_by_type()
    assert stats["system"]["n_bytes"] == nbytes
    assert stats["assistant"]["n_bytes"] == 0
    lru.insert_cache("m", [9], stack([9]))
    assert lru.nbytes == nbytes + sum(c.nbytes for c in stack([9]))


def test_R20_the_bound_holds(stack: Helper) -> None:
    one = sum(c.nbytes for c in stack([0]))
    lru = LRUPromptCache(max_size=100, max_bytes=3 * one)
    for i in range(10):
        assert lru.insert_cache("m", [i], stack([i]))
        assert lru.nbytes <= 3 * one
    assert len(lru) == 3
    assert not lru.insert_cache("m", list(range(2000)), stack(list(range(2000))))
    assert len(lru) == 3  # what cannot be stored evicts nothing


def test_R20_the_default_bound_is_what_the_machine_has() -> None:
    from mlxlm_cache.device import total_memory

    assert 0 < LRUPromptCache().max_bytes < total_memory()


def test_R20_room_is_made_before_it_is_used(stack: Helper) -> None:
    one = sum(c.nbytes for c in stack([0]))
    lru = LRUPromptCache(max_size=100, max_bytes=3 * one)
    for i in range(3):
        lru.insert_cache("m", [i], stack([i]))
    gc.collect()
    before = mx.get_active_memory()
    assert lru.reserve(2 * one)
    assert before - mx.get_active_memory() >= 2 * one
    assert len(lru) == 1
    assert not lru.reserve(4 * one)


def test_R20_evicting_a_long_entry_frees_what_a_short_one_does_not_need(
    lru: LRUPromptCache, stack: Helper, holds: Helper, feed: Helper
) -> None:
    cache = stack(list(range(100)))
    lru.insert_cache("m", list(range(100)), cache, cache_type="system")
    feed(cache, list(range(100, 3000)))
    lru.insert_cache("m", list(range(3000)), cache)
    del cache
    gc.collect()
    before = mx.get_active_memory()
    whole = lru.nbytes
    lru.trim_to(n_bytes=whole - 1)
    assert len(lru) == 1
    assert lru.nbytes < whole / 10
    assert before - mx.get_active_memory() > whole * 0.8
    assert holds(lru.fetch_nearest_cache("m", [*range(100), 1])[0], list(range(100)))


@pytest.mark.parametrize(
    "kind", [KVCache, lambda: QuantizedKVCache(group_size=32, bits=8)], ids=["float", "quantized"]
)
@pytest.mark.parametrize("replay", [False, True])
def test_R19_reuse_takes_memory_for_new_tokens_only(
    lru: LRUPromptCache, kind: Any, replay: bool, stack: Helper, feed: Helper
) -> None:
    prompt = list(range(4096))
    lru.insert_cache("m", prompt, stack(prompt, kind))
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    cache, rest = lru.fetch_nearest_cache("m", prompt if replay else [*prompt, 5, 6])
    assert cache is not None
    for token in [*rest, 7, 8, 9]:
        feed(cache, [token])
    assert mx.get_peak_memory() - before < lru.nbytes / 10


def test_sizes_below_zero_are_errors_and_zero_stores_nothing(stack: Helper) -> None:
    with pytest.raises(ValueError, match="max_size must be 0 or more, not -1"):
        LRUPromptCache(max_size=-1)
    with pytest.raises(ValueError, match="max_bytes must be 0 or more, not -1"):
        LRUPromptCache(max_bytes=-1)
    off = LRUPromptCache(max_size=0)
    assert not off.insert_cache("m", [1], stack([1]))
    assert len(off) == 0


def test_simple_caches_are_stored_too(lru: LRUPromptCache, stack: Helper, holds: Helper) -> None:
    lru.insert_cache("m", [1, 2, 3], stack([1, 2, 3], ConcatenateKVCache))
    cache, rest = lru.fetch_nearest_cache("m", [1, 2, 9])
    assert holds(cache, [1, 2])
    assert rest == [9]


def test_threads_may_insert_and_fetch(lru: LRUPromptCache, stack: Helper, holds: Helper) -> None:
    prompts = [[i, *range(10, 40)] for i in range(6)]
    stacks = [stack(prompt) for prompt in prompts]

    def work(first: int) -> list[Any]:
        found = []
        for i in range(first, first + 60):
            prompt = prompts[i % 6]
            lru.insert_cache("m", prompt, stacks[i % 6])
            found.append((prompt, lru.fetch_nearest_cache("m", [*prompt, 1])))
            lru.reserve(lru.max_bytes - lru.nbytes)
            lru.stats_by_type()
        return found

    with ThreadPoolExecutor(4) as pool:
        results = [found for part in pool.map(work, range(4)) for found in part]
    hits = [(prompt, cache) for prompt, (cache, _) in results if cache is not None]
    assert len(hits) > 60
    assert all(holds(cache, prompt) for prompt, cache in hits[::10])
    assert len(lru) <= 4
