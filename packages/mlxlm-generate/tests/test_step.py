import gc
from collections.abc import Callable
from threading import Thread
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import (
    Cache,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
    make_prompt_cache,
)
from mlxlm_generate import InvalidOption, InvalidPrompt, NotSupported, generate_step
from mlxlm_sample import make_logits_processors, make_sampler

PROMPT = [72, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100]


def tokens(model: Any, prompt: Any = PROMPT, **options: Any) -> list[int]:
    return [token for token, _ in generate_step(prompt, model, **options)]


def test_greedy_equals_recomputing_everything(model: Any, greedy: Any) -> None:
    assert tokens(model, max_tokens=12) == greedy(model, PROMPT, 12)


def test_prompt_may_be_a_list_or_an_array(model: Any) -> None:
    assert tokens(model, mx.array(PROMPT), max_tokens=5) == tokens(model, max_tokens=5)


def test_max_tokens_minus_one_goes_on(model: Any, greedy: Any) -> None:
    steps = generate_step(PROMPT, model, max_tokens=-1)
    assert [next(steps)[0] for _ in range(9)] == greedy(model, PROMPT, 9)
    steps.close()


def test_nothing_is_computed_before_the_first_token_is_asked_for(model: Any) -> None:
    model.fed.clear()
    steps = generate_step(PROMPT, model, max_tokens=3)
    assert model.fed == []
    next(steps)
    assert model.fed == [len(PROMPT) - 1, 1, 1]
    steps.close()


def test_own_cache_computes_nothing_past_the_end(model: Any) -> None:
    model.fed.clear()
    assert len(tokens(model, max_tokens=4)) == 4
    assert model.fed == [len(PROMPT) - 1, 1, 1, 1, 1]


CACHES = {
    "plain": lambda: [KVCache(), KVCache()],
    "concatenate": lambda: [ConcatenateKVCache(), ConcatenateKVCache()],
    "rotating, whole": lambda: [RotatingKVCache(64, keep=2), RotatingKVCache(64)],
    "rotating, wrapped": lambda: [RotatingKVCache(8, keep=2), RotatingKVCache(8)],
    "quantized": lambda: [QuantizedKVCache(32, 8), QuantizedKVCache(32, 8)],
}


@pytest.mark.parametrize("make", CACHES.values(), ids=CACHES.keys())
@pytest.mark.parametrize("taken", [0, 1, 2, 5, 6])
def test_cache_holds_the_prompt_and_all_tokens_yielded(
    model: Any, make: Callable[[], list[Any]], taken: int
) -> None:
    """Closed after any token or exhausted, it continues as one fed the same tokens at once."""
    cache = make()
    steps = generate_step(PROMPT, model, max_tokens=6, prompt_cache=cache)
    yielded = [next(steps)[0] for _ in range(taken)]
    if taken == 6:
        assert next(steps, None) is None
    steps.close()
    fed = PROMPT + yielded if taken else []
    assert [layer.offset for layer in cache] == [len(fed)] * 2

    fresh = make()
    if taken:
        model(mx.array([PROMPT[:-1]]), cache=fresh)
        for token in fed[len(PROMPT) - 1 :]:
            model(mx.array([[token]]), cache=fresh)
    follow = [33, 10]
    assert tokens(model, follow, max_tokens=5, prompt_cache=cache) == tokens(
        model, follow, max_tokens=5, prompt_cache=fresh
    )


def test_conversation_in_one_cache_equals_the_whole_text(model: Any, greedy: Any) -> None:
    cache = make_prompt_cache(model)
    first = tokens(model, max_tokens=5, prompt_cache=cache)
    second = tokens(model, [10, 65, 66], max_tokens=5, prompt_cache=cache)
    assert second == greedy(model, [*PROMPT, *first, 10, 65, 66], 5)


def test_max_tokens_zero_fills_the_cache_without_logits(model: Any) -> None:
    cache = make_prompt_cache(model)
    heard: list[tuple[int, int]] = []
    assert (
        tokens(
            model,
            max_tokens=0,
            prompt_cache=cache,
            prompt_progress_callback=lambda *at: heard.append(at),
        )
        == []
    )
    assert [layer.offset for layer in cache] == [len(PROMPT)] * 2
    assert heard == [(0, 11), (10, 11), (11, 11)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("at", ["prefill", "first token", "later"])
def test_exception_leaves_what_was_yielded(
    model: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], at: str
) -> None:
    """An interrupt between two layers of a step leaves no layer ahead."""
    cache = make_prompt_cache(model)
    steps = generate_step(PROMPT, model, max_tokens=6, prompt_cache=cache, prefill_step_size=4)
    calls = {"prefill": 2, "first token": 4, "later": 6}[at]
    second = type(model.layers[1])
    original, count = second.__call__, 0

    def interrupted(self: Any, *args: Any) -> mx.array:
        nonlocal count
        if self is model.layers[1]:
            count += 1
            if count == calls:
                raise error
        return original(self, *args)

    monkeypatch.setattr(second, "__call__", interrupted)
    yielded: list[int] = []
    with pytest.raises(error):
        yielded.extend(token for token, _ in steps)
    expected = {"prefill": 4, "first token": 10, "later": 12}[at]
    assert len(yielded) == {"prefill": 0, "first token": 0, "later": 1}[at]
    assert [layer.offset for layer in cache] == [expected] * 2


def test_exception_that_cannot_be_undone_is_said(
    model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cache = [RotatingKVCache(8), RotatingKVCache(8)]

    def broken(history: mx.array, logits: mx.array) -> mx.array:
        if history.size > len(PROMPT):
            raise RuntimeError("broken")
        return logits

    with pytest.raises(RuntimeError, match="broken"):
        tokens(model, max_tokens=3, prompt_cache=cache, logits_processors=[broken])
    assert "make a new prompt cache" in caplog.text


def test_R58_generates_from_a_worker_thread(model: Any, greedy: Any) -> None:
    here = tokens(model, max_tokens=6)
    there: list[list[int]] = []
    worker = Thread(target=lambda: there.append(tokens(model, max_tokens=6)))
    worker.start()
    worker.join()
    assert there == [here] == [greedy(model, PROMPT, 6)]


def test_R58_each_step_may_run_in_another_thread(model: Any) -> None:
    cache = make_prompt_cache(model)
    steps = generate_step(PROMPT, model, max_tokens=6, prompt_cache=cache)
    seen: list[int] = []
    for _ in range(6):
        worker = Thread(target=lambda: seen.append(next(steps)[0]))
        worker.start()
        worker.join()
    assert seen == tokens(model, max_tokens=6)
    assert tokens(model, [1], max_tokens=3, prompt_cache=cache)


def test_stream_is_not_left_set_between_steps(model: Any) -> None:
    before = mx.default_stream(mx.default_device())
    steps = generate_step(PROMPT, model, max_tokens=3)
    next(steps)
    assert mx.default_stream(mx.default_device()) == before
    steps.close()


def test_processors_see_the_whole_prompt_first(model: Any) -> None:
    seen: list[list[int]] = []

    def spy(history: mx.array, logits: mx.array) -> mx.array:
        seen.append(history.tolist())  # type: ignore[arg-type]
        assert logits.shape == (1, 258)
        return logits

    out = tokens(model, max_tokens=3, logits_processors=[spy], prefill_step_size=4)
    assert seen == [PROMPT, PROMPT + out[:1], PROMPT + out[:2]]


def test_processors_change_what_is_chosen(model: Any) -> None:
    biased = make_logits_processors(logit_bias={42: 1e4})
    assert tokens(model, max_tokens=3, logits_processors=biased) == [42] * 3
    first = make_logits_processors(logit_bias={7: 1e4})
    assert tokens(model, max_tokens=1, logits_processors=[*biased, *first]) != []


def test_sampler_gets_log_probabilities(model: Any) -> None:
    def sampler(logprobs: mx.array) -> mx.array:
        assert logprobs.shape == (1, 258)
        assert logprobs.dtype == mx.float32
        assert mx.allclose(mx.exp(logprobs).sum(), mx.array(1.0), atol=1e-5)
        return mx.argmin(logprobs, axis=-1)

    out = tokens(model, max_tokens=3, sampler=sampler)
    assert out != tokens(model, max_tokens=3)


def test_seeded_sampling_repeats(model: Any) -> None:
    once, again = (
        tokens(model, max_tokens=8, sampler=make_sampler(temp=1.0, key=3)) for _ in range(2)
    )
    assert once == again
    assert once != tokens(model, max_tokens=8)


def test_log_probabilities_are_the_whole_vector(model: Any) -> None:
    for (token, lazy), (_, eager) in zip(
        generate_step(PROMPT, model, max_tokens=3),
        generate_step(PROMPT, model, max_tokens=3, logprobs=True),
        strict=True,
    ):
        assert lazy.shape == (258,)
        assert lazy.dtype == mx.float32
        assert mx.argmax(lazy).item() == token
        assert mx.allclose(mx.exp(lazy).sum(), mx.array(1.0), atol=1e-5)
        assert mx.array_equal(lazy, eager)


def test_R60_unread_log_probabilities_are_not_computed(oracle: Any) -> None:
    """With a vocabulary of a million, each vector computed would take 4 MB more at the peak."""
    vocab = 1_000_000
    big = oracle([5, 6, 7], prompt_tokens=2, vocab=vocab)

    def peak(**options: Any) -> int:
        mx.synchronize()
        mx.clear_cache()
        mx.reset_peak_memory()
        gc.collect()
        before = mx.get_active_memory()
        for _ in generate_step([1, 2], big, max_tokens=6, **options):
            pass
        return mx.get_peak_memory() - before

    unread = peak()
    assert peak(sampler=make_sampler(temp=0.0)) - unread < vocab
    assert peak(logprobs=True) - unread >= 4 * vocab
    assert peak(sampler=make_sampler(temp=1.0)) - unread >= 4 * vocab


def test_embeddings_in_place_of_tokens(model: Any) -> None:
    rows = model.embed(mx.array(PROMPT))
    want = tokens(model, max_tokens=6)
    for size in (3, 2048):
        given = {"max_tokens": 6, "input_embeddings": rows, "prefill_step_size": size}
        assert tokens(model, [], **given) == want
        assert tokens(model, PROMPT, **given) == want


def test_R57_long_decode_has_flat_memory(model: Any) -> None:
    """5,000 steps: a bounded cache neither grows nor keeps the graph of its updates."""
    small = type(model)(layers=[type(model.layers[0])])
    cache: list[Cache] = [RotatingKVCache(32, keep=4)]
    unread = make_logits_processors(logit_bias={3: -1.0})  # never looks at the history
    at: list[int] = []
    for i, _ in enumerate(
        generate_step(PROMPT, small, max_tokens=5000, prompt_cache=cache, logits_processors=unread)
    ):
        if i in (999, 2999, 4999):
            at.append(mx.get_active_memory())
    # The history itself takes four bytes a token, twice while it is copied.
    assert max(at) - at[0] < 64 * 1024


def test_R57_full_cache_grows_by_its_keys_only(model: Any) -> None:
    cache = make_prompt_cache(model)
    gc.collect()
    start = mx.get_active_memory()
    for _ in generate_step(PROMPT, model, max_tokens=700, prompt_cache=cache):
        pass
    mx.synchronize()
    kept = sum(layer.nbytes for layer in cache)
    assert mx.get_active_memory() - start < kept + 2**20


class Blind:
    layers = ()

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        raise AssertionError("computed")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"max_tokens": -2}, InvalidOption, "max_tokens=-2"),
        ({"prefill_step_size": 0}, InvalidOption, "prefill_step_size=0"),
        ({"quantized_kv_start": -1}, InvalidOption, "quantized_kv_start=-1"),
        ({"max_kv_size": 2}, ValueError, "max_kv_size"),
        ({"kv_bits": 7}, ValueError, "7"),
        ({"kv_bits": 8, "kv_group_size": 5}, ValueError, "5"),
        ({"max_kv_size": 16, "prompt_cache": []}, InvalidOption, "leave max_kv_size out"),
        ({"prompt_cache": [KVCache()]}, InvalidOption, "another model"),
        ({"input_embeddings": mx.zeros((3, 4))}, NotSupported, "input_embeddings"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_R03_wrong_options_raise_at_the_call(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        generate_step([1, 2, 3], Blind(), **options)


def test_kv_bits_of_caches_that_cannot_or_differ_raise_at_the_call(model: Any) -> None:
    chunked: list[Cache] = [KVCache(), ChunkedKVCache(8)]
    with pytest.raises(ValueError, match=r"ChunkedKVCache \(layer 1\)"):
        generate_step(PROMPT, model, kv_bits=8, prompt_cache=chunked)
    cache: list[Cache] = [QuantizedKVCache(32, 4), QuantizedKVCache(32, 4)]
    with pytest.raises(ValueError, match="8 bits"):
        generate_step(PROMPT, model, kv_bits=8, kv_group_size=32, prompt_cache=cache)


@pytest.mark.parametrize("prompt", [[], mx.array([], dtype=mx.int32)])
def test_empty_prompt_is_an_error(model: Any, prompt: Any) -> None:
    with pytest.raises(InvalidPrompt, match="empty"):
        generate_step(prompt, model)


def test_R03_max_kv_size_bounds_the_cache(model: Any) -> None:
    out = tokens(model, max_tokens=20, max_kv_size=8)
    cache = make_prompt_cache(model, 8)
    assert tokens(model, max_tokens=20, prompt_cache=cache) == out
    assert all(layer.size() == 8 for layer in cache)
    assert out != tokens(model, max_tokens=20)


def test_R10_a_bounded_cache_is_quantized_on_the_way(model: Any) -> None:
    options: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 13}
    cache = make_prompt_cache(model, 8)
    first = tokens(model, max_tokens=2, prompt_cache=cache)
    packed: list[Cache] = [c.to_quantized(32, 8) for c in cache]  # type: ignore[attr-defined]
    rest = tokens(model, [33], max_tokens=9, prompt_cache=packed)

    mine = make_prompt_cache(model, 8)
    assert tokens(model, max_tokens=2, prompt_cache=mine, **options) == first
    assert all(isinstance(c, RotatingQuantizedKVCache) for c in mine)
    assert tokens(model, [33], max_tokens=9, prompt_cache=mine, **options) == rest
    assert [c.size() for c in mine] == [8, 8]
    out = tokens(model, max_tokens=20, max_kv_size=8, **options)
    assert (out[:2], len(out)) == (first, 20)
