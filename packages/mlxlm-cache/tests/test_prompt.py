import gc
import logging
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheList,
    CacheNotBounded,
    CacheNotQuantizable,
    CacheNotTrimmable,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
    can_checkpoint_prompt_cache,
    can_trim_prompt_cache,
    checkpoint_prompt_cache,
    make_prompt_cache,
    merge_prompt_caches,
    quantize_prompt_cache,
    trim_prompt_cache,
)


class Recurrent(Cache):
    """A layer with a state and no keys."""

    state: Any = None
    nbytes = 0

    def size(self) -> int:
        return 0

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> "Recurrent":
        return cls()


class Endless(Cache):
    """A layer that keeps keys for good and can do nothing else."""

    state: Any = None
    nbytes = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        self.offset += keys.shape[2]
        return keys, values

    def size(self) -> int:
        return self.offset

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> "Endless":
        return cls()


def feed(caches: list[Cache], n: int) -> None:
    x = mx.random.normal((1, 1, n, 64), key=mx.random.key(n))
    for cache in caches:
        if isinstance(cache, Recurrent):
            cache.offset += n
        else:
            cache.update_and_fetch(x, x)


def model(*caches: Cache) -> Any:
    return SimpleNamespace(make_cache=lambda: list(caches))


def test_make_gives_a_cache_for_each_layer() -> None:
    caches = make_prompt_cache(SimpleNamespace(layers=[None] * 3))
    assert [type(c) for c in caches] == [KVCache] * 3
    assert len({id(c) for c in caches}) == 3


def test_make_bounds_plain_layers_with_four_first_tokens() -> None:
    caches = make_prompt_cache(SimpleNamespace(layers=[None] * 2), max_kv_size=64)
    for cache in caches:
        assert isinstance(cache, RotatingKVCache)
        assert (cache.max_size, cache.keep) == (64, 4)


def test_make_asks_the_model_first() -> None:
    caches = make_prompt_cache(model(RotatingKVCache(32), KVCache()))
    assert [type(c) for c in caches] == [RotatingKVCache, KVCache]


def test_R09_max_kv_size_bounds_the_layers_of_a_model_with_make_cache() -> None:
    made = [RotatingKVCache(32), KVCache(), ConcatenateKVCache(), RotatingKVCache(512), Recurrent()]
    caches = make_prompt_cache(model(*made), max_kv_size=64)
    for cache in caches[:4]:
        assert isinstance(cache, RotatingKVCache)
    assert [(c.max_size, c.keep) for c in caches[:4]] == [(32, 0), (64, 4), (64, 4), (64, 0)]  # type: ignore[attr-defined]
    assert caches[4] is made[4]
    feed(caches, 200)
    assert [c.size() for c in caches[:4]] == [32, 64, 64, 64]


def test_R09_a_layer_that_cannot_be_bounded_is_named() -> None:
    made = [KVCache(), Endless(), CacheList(KVCache(), Endless())]
    with pytest.raises(CacheNotBounded, match=r"=64 .* Endless \(layer 1\); CacheList \(layer 2\)"):
        make_prompt_cache(model(*made), max_kv_size=64)


def test_R09_the_caches_inside_a_list_are_bounded_too() -> None:
    (made,) = make_prompt_cache(model(CacheList(KVCache(), ArraysCache(1))), max_kv_size=64)
    assert isinstance(made, CacheList)
    assert [type(c) for c in made] == [RotatingKVCache, ArraysCache]


def test_R09_quantized_and_chunked_layers_are_bounded() -> None:
    made = make_prompt_cache(model(QuantizedKVCache(bits=4), ChunkedKVCache(32)), max_kv_size=64)
    feed(made, 200)
    assert isinstance(made[0], RotatingQuantizedKVCache)
    assert (made[0].bits, made[0].keep, made[0].size()) == (4, 4, 64)
    with pytest.raises(CacheNotBounded, match="chunks of 128 tokens do not fit in 64"):
        make_prompt_cache(model(ChunkedKVCache(128)), max_kv_size=64)


@pytest.mark.parametrize("size", [-1, 0, 4])
def test_R09_a_bound_without_room_is_an_error(size: int) -> None:
    with pytest.raises(ValueError, match=f"max_kv_size must be more than 4, .* not {size}"):
        make_prompt_cache(SimpleNamespace(layers=[None]), max_kv_size=size)


def test_trim_takes_the_same_from_every_layer() -> None:
    caches: list[Cache] = [KVCache(), RotatingKVCache(16), QuantizedKVCache(), ConcatenateKVCache()]
    feed(caches, 10)
    assert can_trim_prompt_cache(caches)
    assert trim_prompt_cache(caches, 3) == 3
    assert [c.offset for c in caches] == [7] * 4
    assert trim_prompt_cache(caches, 100) == 7
    assert trim_prompt_cache(caches, 1) == 0
    assert trim_prompt_cache([], 1) == 0


def test_R07_trim_raises_and_changes_nothing_where_one_layer_cannot() -> None:
    caches: list[Cache] = [KVCache(), RotatingKVCache(8), KVCache(), Recurrent()]
    feed(caches, 10)
    assert not can_trim_prompt_cache(caches)
    with pytest.raises(
        CacheNotTrimmable, match=r"2 tokens .* RotatingKVCache \(layer 1\); Recurrent \(layer 3\)"
    ):
        trim_prompt_cache(caches, 2)
    assert [c.offset for c in caches] == [10] * 4
    assert trim_prompt_cache(caches, 0) == 0


def test_R07_an_unused_layer_does_not_stop_a_trim() -> None:
    caches: list[Cache] = [KVCache(), KVCache(), Recurrent()]
    feed(caches[:1], 10)
    assert trim_prompt_cache(caches, 2) == 2


def test_trim_of_a_negative_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot trim -1 tokens"):
        trim_prompt_cache([KVCache()], -1)


def test_R14_all_layers_switch_at_one_step_and_it_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="mlxlm_cache")
    caches: list[Cache] = [KVCache(), ConcatenateKVCache(), KVCache(), Recurrent()]
    switched = []
    for step in range(6):
        feed(caches[:1], 2 if step == 0 else 1)  # the first layer is ahead of the others
        feed(caches[1:], 1)
        switched.append(quantize_prompt_cache(caches, bits=8, start=5))
        kinds = {type(c) for c in caches[:3]}
        assert kinds <= {KVCache, ConcatenateKVCache} or kinds == {QuantizedKVCache}
    assert switched == [False, False, False, True, False, False]
    assert [c.offset for c in caches[:3]] == [7, 6, 6]
    assert isinstance(caches[3], Recurrent)
    (record,) = caplog.records
    assert record.getMessage().startswith("quantized keys and values of 3 layers to 8 bits")


def test_R14_the_default_start_is_5000() -> None:
    caches: list[Cache] = [KVCache()]
    feed(caches, 4999)
    assert not quantize_prompt_cache(caches, bits=8)
    feed(caches, 1)
    assert quantize_prompt_cache(caches, bits=8)


def test_R10_a_stack_with_a_layer_that_cannot_be_quantized_is_refused_at_once() -> None:
    caches: list[Cache] = [KVCache(), Endless(), CacheList(KVCache(), Endless())]
    before = list(caches)
    match = r"to 8 bits .* Endless \(layer 1\); CacheList \(layer 2\)"
    with pytest.raises(CacheNotQuantizable, match=match):
        quantize_prompt_cache(caches, bits=8)
    assert caches == before


@pytest.mark.parametrize("keep", [0, 4])
def test_R10_rotating_layers_are_quantized_and_stay_bounded(keep: int) -> None:
    caches: list[Cache] = [RotatingKVCache(8, keep=keep), CacheList(KVCache(), ArraysCache(1))]
    feed(caches[:1], 20)
    assert isinstance(caches[1], CacheList)
    feed([caches[1][0]], 20)
    assert quantize_prompt_cache(caches, bits=8, start=10)
    window, both = caches
    assert isinstance(window, RotatingQuantizedKVCache)
    assert (window.offset, window.size(), window.keep) == (20, 8, keep)
    assert isinstance(both, CacheList)
    assert [type(c) for c in both] == [QuantizedKVCache, ArraysCache]
    assert not quantize_prompt_cache(caches, bits=8, start=10)
    feed(caches[:1], 1)
    assert window.size() == 8


def test_R23_a_checkpoint_lets_every_kind_of_layer_go_back() -> None:
    caches: list[Cache] = [KVCache(), RotatingKVCache(8, keep=1), ChunkedKVCache(4), ArraysCache(1)]

    def step(n: int) -> None:
        feed(caches[:3], n)
        recurrent = caches[3]
        assert isinstance(recurrent, ArraysCache)
        for _ in range(n):
            state = recurrent[0]
            recurrent[0] = mx.ones((1, 1)) if state is None else 2 * state
            recurrent.advance(1)

    step(20)
    with pytest.raises(CacheNotTrimmable):
        trim_prompt_cache(caches, 1)
    checkpoint_prompt_cache(caches, 3)
    step(4)
    assert [c.capabilities.trim for c in caches] == [24, 3, 24, 3]
    assert trim_prompt_cache(caches, 3) == 3
    assert [c.tokens_seen for c in caches] == [21] * 4
    assert caches[3][0].item() == 2.0**20  # type: ignore[index]
    with pytest.raises(CacheNotTrimmable, match=r"RotatingKVCache \(layer 1\); .*ArraysCache"):
        trim_prompt_cache(caches, 3)
    assert [c.tokens_seen for c in caches] == [21] * 4


def test_R23_a_checkpoint_of_a_layer_that_cannot_go_back_is_refused() -> None:
    caches: list[Cache] = [RotatingKVCache(8), Endless()]
    with pytest.raises(CacheNotTrimmable, match=r"never be taken back from Endless \(layer 1\)"):
        checkpoint_prompt_cache(caches, 3)
    assert caches[0].slack == 0  # type: ignore[attr-defined]
    assert not can_checkpoint_prompt_cache(caches)
    assert can_checkpoint_prompt_cache(caches[:1])


def test_a_cache_says_how_many_tokens_it_was_told_to_hold_for_going_back() -> None:
    inner = [RotatingKVCache(8), ArraysCache(1)]
    kinds: list[Cache] = [
        *(RotatingKVCache(8), RotatingQuantizedKVCache(8), ChunkedKVCache(4), ArraysCache(1)),
        CacheList(*inner),
        merge_prompt_caches([[RotatingKVCache(8)], [RotatingKVCache(8)]])[0],
        merge_prompt_caches([[ChunkedKVCache(4)], [ChunkedKVCache(4)]])[0],
    ]
    assert [c.checkpointed for c in kinds] == [0] * 7
    checkpoint_prompt_cache(kinds, 3)
    assert [c.checkpointed for c in [*kinds, *inner]] == [3] * 9
    assert KVCache().checkpointed == 0


def test_a_head_dimension_that_does_not_divide_leaves_every_layer_as_it_was() -> None:
    caches: list[Cache] = [KVCache(), KVCache()]
    feed(caches[:1], 3)
    caches[1].update_and_fetch(mx.zeros((1, 1, 3, 80)), mx.zeros((1, 1, 3, 80)))
    before = list(caches)
    with pytest.raises(CacheNotQuantizable, match="head dimension of 80"):
        quantize_prompt_cache(caches, bits=8, start=0)
    assert caches == before


def test_layers_quantized_otherwise_are_an_error() -> None:
    caches: list[Cache] = [QuantizedKVCache(group_size=64, bits=4)]
    assert not quantize_prompt_cache(caches, bits=4, start=0)
    with pytest.raises(CacheNotQuantizable, match="to 8 bits in groups of 64"):
        quantize_prompt_cache(caches, bits=8, start=0)


def test_settings_that_mlx_has_not_are_refused_before_the_start() -> None:
    with pytest.raises(ValueError, match="bits must be one of"):
        quantize_prompt_cache([KVCache()], bits=7)


def test_quantizing_frees_the_float_buffers() -> None:
    gc.collect()
    before = mx.get_active_memory()
    caches: list[Cache] = [KVCache() for _ in range(4)]
    feed(caches, 1000)
    mx.eval([c.state for c in caches])
    assert quantize_prompt_cache(caches, bits=4, start=0)
    mx.synchronize()  # the stream's thread lets go of its arrays a moment after the result
    live = sum(c.nbytes for c in caches)
    assert mx.get_active_memory() - before < live + 64 * 1024
    assert live < 4 * 2 * 1024 * 64 * 4 / 4
