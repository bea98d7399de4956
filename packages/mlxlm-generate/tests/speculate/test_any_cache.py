"""R23, R26: over any cache, speculation changes neither the tokens nor what the cache holds."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
)
from mlxlm_generate import NGramDrafter, generate_step
from mlxlm_sample import make_logits_processors, make_sampler

PACKED = {"group_size": 32, "bits": 8}

STACKS: dict[str, Callable[[], list[Cache]]] = {
    "plain": lambda: [KVCache(), ConcatenateKVCache()],
    "windows": lambda: [RotatingKVCache(9, keep=2), RotatingKVCache(6)],
    "chunks": lambda: [ChunkedKVCache(5), ChunkedKVCache(7)],
    "packed": lambda: [QuantizedKVCache(**PACKED), RotatingQuantizedKVCache(8, 2, **PACKED)],
    "lists": lambda: [
        CacheList(KVCache(), ArraysCache(1)),
        CacheList(RotatingKVCache(7), ArraysCache(1)),
    ],
    "recurrent": lambda: [ArraysCache(1), KVCache()],
}


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """How tokens are chosen; called anew for each run, as samplers count their draws."""
    temp = draw(st.sampled_from([0.0, 0.9]))
    seed = draw(st.integers(0, 99))
    own = draw(st.booleans())
    penalty = draw(st.sampled_from([None, 1.3]))

    def make() -> dict[str, Any]:
        sampler: Any = make_sampler(temp=temp, key=seed) if temp else None
        if own and sampler is not None:
            made = sampler
            sampler = lambda logprobs: made(logprobs)  # noqa: E731 - a function of one's own
        processors: Any = make_logits_processors(repetition_penalty=penalty)
        return {"sampler": sampler, "logits_processors": processors}

    return {"make": make}


@pytest.mark.parametrize("stack", STACKS)
@settings(max_examples=12, deadline=None)
@given(
    choosing=options(),
    prompt=st.lists(st.integers(0, 255), min_size=1, max_size=14),
    history=st.none() | st.lists(st.integers(0, 255), min_size=1, max_size=14),
    count=st.integers(1, 16),
    stop=st.integers(1, 16),
    longest=st.integers(1, 5),
    wrong=st.integers(1, 5),
    silent=st.none() | st.integers(1, 4),
    ngrams=st.booleans(),
    step_size=st.sampled_from([3, 64]),
    start=st.none() | st.integers(0, 24),
)
def test_R23_R26_tokens_and_cache_are_those_without(
    model: Any,
    lists_model: Any,
    hybrid_model: Any,
    always: Any,
    knowing: Any,
    stack: str,
    choosing: dict[str, Any],
    prompt: list[int],
    history: list[int] | None,
    count: int,
    stop: int,
    longest: int,
    wrong: int,
    silent: int | None,
    ngrams: bool,
    step_size: int,
    start: int | None,
) -> None:
    model = {"lists": lists_model, "recurrent": hybrid_model}.get(stack, model)
    how: dict[str, Any] = {"prefill_step_size": step_size}
    if start is not None and stack != "chunks":  # which keep their precision
        how |= {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": start}

    def run(count: int, cache: list[Cache], **more: Any) -> list[int]:
        steps = generate_step(
            prompt, model, max_tokens=count, prompt_cache=cache, **how, **choosing["make"](), **more
        )
        tokens = [token for _, (token, _) in zip(range(stop), steps, strict=False)]
        steps.close()
        return tokens

    def filled() -> list[Cache]:
        cache = STACKS[stack]()
        if history:
            model(mx.array([history]), cache=cache)
        return cache

    plain, guessed = filled(), filled()
    answer = run(count, plain)
    limits = [leaf.checkpointed for layer in guessed for leaf in layer.leaves()]
    drafter = NGramDrafter() if ngrams else knowing(len(prompt), answer, wrong, silent)
    assert run(count, guessed, drafter=drafter, num_draft_tokens=always(longest)) == answer
    assert [c.tokens_seen for c in guessed] == [c.tokens_seen for c in plain]
    assert [type(c) for c in guessed] == [type(c) for c in plain]
    assert [leaf.checkpointed for layer in guessed for leaf in layer.leaves()] == limits
    after = [token for token, _ in generate_step([7, 9], model, max_tokens=4, prompt_cache=plain)]
    assert after == [t for t, _ in generate_step([7, 9], model, max_tokens=4, prompt_cache=guessed)]
