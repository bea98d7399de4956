"""R59: every sequence of a batch gets what it gets alone, through a model."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheList,
    CacheNotMergeable,
    CacheNotTrimmable,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    can_merge_prompt_cache,
    checkpoint_prompt_cache,
    copy_prompt_cache,
    create_attention_mask,
    extend_prompt_cache,
    extract_prompt_cache,
    filter_prompt_cache,
    finalize_prompt_cache,
    merge_prompt_caches,
    prepare_prompt_cache,
    quantize_prompt_cache,
    scaled_dot_product_attention,
    trim_prompt_rows,
)

SIZE, HEADS, VOCABULARY = 64, 2, 50


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(SIZE, 3 * SIZE)

    def __call__(self, x: mx.array, cache: Any) -> mx.array:
        mask = create_attention_mask(x, cache)
        parts = mx.split(self.qkv(x), 3, axis=-1)
        q, k, v = (a.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for a in parts)
        offset = cache.offset
        q, k = (
            mx.fast.rope(a, 32, traditional=False, base=1e4, scale=1.0, offset=offset)
            for a in (q, k)
        )
        keys, values = cache.update_and_fetch(k, v)
        out = scaled_dot_product_attention(q, keys, values, cache, 0.2, mask)
        return out.swapaxes(1, 2).reshape(x.shape)


class Recurrence(nn.Module):
    """A decaying sum of the inputs."""

    def __call__(self, x: mx.array, cache: ArraysCache) -> mx.array:
        mask = cache.make_mask(x.shape[1])
        state = cache[0] if cache[0] is not None else mx.zeros((x.shape[0], x.shape[2]))
        outputs = []
        for i in range(x.shape[1]):
            new = 0.8 * state + x[:, i]
            state = new if mask is None else mx.where(mask[:, i : i + 1], new, state)  # type: ignore[index]
            cache[0] = state
            cache.advance(1)
            outputs.append(state)
        return mx.stack(outputs, axis=1)


class Model(nn.Module):
    """Layers of every kind that merges."""

    def __init__(self) -> None:
        super().__init__()
        mx.random.seed(7)
        self.embed = nn.Embedding(VOCABULARY, SIZE)
        self.attentions = [Attention() for _ in range(5)]
        self.recurrence = Recurrence()
        self.layers = list(range(5))

    def make_cache(self) -> list[Cache]:
        return [
            KVCache(),
            RotatingKVCache(6),
            CacheList(RotatingKVCache(7, keep=2), ArraysCache(1)),
            ChunkedKVCache(5),
            ArraysCache(1),
        ]

    def __call__(self, tokens: mx.array, cache: Sequence[Any]) -> mx.array:
        x = self.embed(tokens)
        for i, c in enumerate(cache):
            if isinstance(c, CacheList):
                x = x + self.attentions[i](x, c[0]) + 0.1 * self.recurrence(x, c[1])  # type: ignore[arg-type]
            elif isinstance(c, ArraysCache):
                x = x + 0.1 * self.recurrence(x, c)
            else:
                x = x + self.attentions[i](x, c)
        return self.embed.as_linear(x)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def alone(model: Model) -> Callable[[list[int]], np.ndarray]:
    """The logits of a sequence on its own, token by token."""

    def run(tokens: list[int]) -> np.ndarray:
        cache = model.make_cache()
        return np.concatenate([np.array(model(mx.array([[t]]), cache)[0]) for t in tokens])

    return run


def sequence(seed: int, n: int) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, n)]


Alone = Callable[[list[int]], np.ndarray]


def test_R59_rows_that_join_and_leave_get_what_they_get_alone(model: Model, alone: Alone) -> None:
    sequences = [sequence(i, 30) for i in range(4)]
    expected = [alone(s) for s in sequences]

    def prefilled(i: int, n: int) -> list[Cache]:
        cache = model.make_cache()
        model(mx.array([sequences[i][:n]]), cache)
        return cache

    at = {0: 3, 1: 11}
    batch = merge_prompt_caches([prefilled(0, 3), prefilled(1, 11)])

    def decode(steps: int) -> None:
        for _ in range(steps):
            tokens = mx.array([[sequences[i][n]] for i, n in at.items()])
            logits = np.array(model(tokens, batch))
            for row, (i, n) in enumerate(at.items()):
                np.testing.assert_allclose(logits[row, 0], expected[i][n], atol=2e-4)
                at[i] = n + 1

    decode(5)
    extend_prompt_cache(batch, merge_prompt_caches([prefilled(2, 17)]))
    at[2] = 17
    decode(4)
    filter_prompt_cache(batch, mx.array([0, 2]))
    del at[1]
    decode(3)
    extend_prompt_cache(batch, merge_prompt_caches([prefilled(3, 1)]))
    at[3] = 1
    decode(4)
    single = extract_prompt_cache(batch, 1)
    n = at[2]
    logits = np.array(model(mx.array([sequences[2][n : n + 2]]), single))
    np.testing.assert_allclose(logits[0], expected[2][n : n + 2], atol=2e-4)


@pytest.mark.parametrize("chunk", [4, 20])
def test_R59_padded_prompts_get_what_they_get_alone(model: Model, alone: Alone, chunk: int) -> None:
    first = [sequence(i, n) for i, n in enumerate((3, 9, 14))]
    more = [sequence(10 + i, n) for i, n in enumerate((8, 1, 5))]
    expected = [alone(a + b + [0]) for a, b in zip(first, more, strict=True)]
    batch = merge_prompt_caches([model.make_cache() for _ in first])
    padding = [14 - len(a) for a in first]
    prepare_prompt_cache(batch, left_padding=padding)
    columns = mx.array([[0] * p + a for p, a in zip(padding, first, strict=True)])
    parts = [model(columns[:, i : i + chunk], batch) for i in range(0, 14, chunk)]
    logits = np.array(mx.concatenate(parts, axis=1))
    assert np.isfinite(logits).all()
    for row, p in enumerate(padding):
        np.testing.assert_allclose(logits[row, p:], expected[row][: 14 - p], atol=2e-4)

    padding = [8 - len(b) for b in more]
    prepare_prompt_cache(batch, lengths=[len(b) for b in more], right_padding=padding)
    columns = mx.array([b + [0] * p for p, b in zip(padding, more, strict=True)])
    parts = [model(columns[:, i : i + chunk], batch) for i in range(0, 8, chunk)]
    logits = np.array(mx.concatenate(parts, axis=1))
    finalize_prompt_cache(batch)
    last = np.array(model(mx.zeros((3, 1), dtype=mx.int32), batch))
    for row, (a, b) in enumerate(zip(first, more, strict=True)):
        inside = expected[row][len(a) : len(a) + len(b)]
        np.testing.assert_allclose(logits[row, : len(b)], inside, atol=2e-4)
        np.testing.assert_allclose(last[row, 0], expected[row][-1], atol=2e-4)


def test_R23_rows_go_back_by_different_numbers(model: Model, alone: Alone) -> None:
    starts = [sequence(i, n) for i, n in enumerate((4, 12))]
    batch = merge_prompt_caches([model.make_cache() for _ in starts])
    prepare_prompt_cache(batch, left_padding=[8, 0])
    model(mx.array([[0] * 8 + starts[0], starts[1]]), batch)
    checkpoint_prompt_cache(batch, 4)
    model(mx.array([[1, 2, 3, 4], [5, 6, 7, 8]]), batch)
    assert trim_prompt_rows(batch, [3, 1]) == [3, 1]
    logits = np.array(model(mx.array([[9], [9]]), batch))
    np.testing.assert_allclose(logits[0, 0], alone([*starts[0], 1, 9])[-1], atol=2e-4)
    np.testing.assert_allclose(logits[1, 0], alone([*starts[1], 5, 6, 7, 9])[-1], atol=2e-4)
    before = [c.tokens_seen for c in batch]
    with pytest.raises(CacheNotTrimmable, match="layer 1"):
        trim_prompt_rows(batch, [0, 10])
    assert [c.tokens_seen for c in batch] == before


def test_a_copy_goes_its_own_way(model: Model, alone: Alone) -> None:
    tokens = sequence(0, 9)
    cache = model.make_cache()
    model(mx.array([tokens]), cache)
    copied = copy_prompt_cache(cache)
    for token, c in ((1, cache), (2, copied), (3, cache)):
        model(mx.array([[token]]), c)
    logits = np.array(model(mx.array([[4]]), copied))
    np.testing.assert_allclose(logits[0, 0], alone([*tokens, 2, 4])[-1], atol=2e-4)
    logits = np.array(model(mx.array([[4]]), cache))
    np.testing.assert_allclose(logits[0, 0], alone([*tokens, 1, 3, 4])[-1], atol=2e-4)


def test_R10_a_batch_can_be_quantized_on_the_way() -> None:
    singles: list[list[Cache]] = [[KVCache(), RotatingKVCache(8, keep=2)] for _ in range(2)]
    x = mx.random.normal((1, 1, 12, 64), key=mx.random.key(0))
    for single in singles:
        for cache in single:
            cache.update_and_fetch(x, x)
    batch = merge_prompt_caches(singles)
    assert quantize_prompt_cache(batch, bits=8, start=12)
    assert [type(c).__name__ for c in batch] == [
        "BatchQuantizedKVCache",
        "BatchRotatingQuantizedKVCache",
    ]
    assert not can_merge_prompt_cache([ClassWithoutMerge()])
    assert can_merge_prompt_cache(extract_prompt_cache(batch, 0))


class ClassWithoutMerge(Cache):
    state: Any = None
    nbytes = 0

    def size(self) -> int:
        return 0

    @classmethod
    def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> "ClassWithoutMerge":
        return cls()


def test_R29_a_subclass_is_a_row_like_its_parent() -> None:
    class Mine(KVCache):
        pass

    batch = merge_prompt_caches([[Mine()], [KVCache()]])
    assert batch[0].offset.tolist() == [0, 0]  # type: ignore[attr-defined]


def test_what_cannot_be_merged_is_named_with_its_layer() -> None:
    quantized: list[Cache] = [KVCache(), KVCache().to_quantized()]
    with pytest.raises(CacheNotMergeable, match="layer 1: KVCache .* with QuantizedKVCache"):
        merge_prompt_caches([quantized, [KVCache(), KVCache()]])
    with pytest.raises(CacheNotMergeable, match="layer 0: ClassWithoutMerge has no `merge`"):
        merge_prompt_caches([[ClassWithoutMerge()]])
    with pytest.raises(CacheNotMergeable, match=r"\[1, 2\] layers"):
        merge_prompt_caches([[KVCache()], [KVCache(), KVCache()]])
    with pytest.raises(CacheNotMergeable, match="no cache to merge"):
        merge_prompt_caches([])
