import logging
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, QuantizedKVCache, make_prompt_cache
from mlxlm_generate import generate_step
from mlxlm_generate.forward import Forward

PROMPT = list(range(65, 77))


def test_counts_what_it_feeds(model: Any) -> None:
    forward = Forward(model, make_prompt_cache(model))
    assert forward(mx.array(PROMPT)).shape == (1, 258)
    forward(mx.array([], dtype=mx.uint32), model.embed(mx.array(PROMPT[:3])))
    assert forward.fed == len(PROMPT) + 3


def test_keep_first_takes_back_the_rest(model: Any) -> None:
    cache = make_prompt_cache(model)
    model(mx.array([[1, 2, 3]]), cache=cache)
    forward = Forward(model, cache)
    forward(mx.array(PROMPT))
    forward.keep_first(5)
    assert [layer.offset for layer in cache] == [8, 8]
    forward.keep_first(100)
    assert [layer.offset for layer in cache] == [8, 8]


def test_R14_all_layers_switch_at_one_step_and_it_is_logged_once(
    model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cache = make_prompt_cache(model)
    kinds: list[set[type]] = []
    with caplog.at_level(logging.INFO):
        for _ in generate_step(
            PROMPT,
            model,
            max_tokens=8,
            prompt_cache=cache,
            kv_bits=8,
            kv_group_size=32,
            quantized_kv_start=16,
        ):
            kinds.append({type(layer) for layer in cache})
    # The token just yielded is in the cache: 13 tokens after the first, 16 after the fourth.
    assert kinds == [{KVCache}] * 3 + [{QuantizedKVCache}] * 5
    assert len([r for r in caplog.records if "quantized" in r.message]) == 1
    assert {(layer.bits, layer.group_size) for layer in cache} == {(8, 32)}  # type: ignore[attr-defined]
    assert [layer.offset for layer in cache] == [20, 20]


def test_switch_changes_little(model: Any, greedy: Any) -> None:
    """Eight bits keep the first choices of this model; the text is that of floats."""
    got = [
        token
        for token, _ in generate_step(
            PROMPT, model, max_tokens=6, kv_bits=8, kv_group_size=32, quantized_kv_start=14
        )
    ]
    assert got == greedy(model, PROMPT, 6)


def test_head_dimension_that_does_not_divide_raises_at_the_first_token(model: Any) -> None:
    """Not thousands of tokens later, when the switch is due."""
    steps = generate_step(PROMPT, model, kv_bits=8, kv_group_size=64)
    with pytest.raises(ValueError, match="head dimension of 32"):
        next(steps)


def test_switch_in_prefill(model: Any) -> None:
    cache = make_prompt_cache(model)
    options: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 4}
    steps = generate_step(PROMPT, model, prompt_cache=cache, prefill_step_size=3, **options)
    next(steps)
    steps.close()
    assert all(isinstance(layer, QuantizedKVCache) for layer in cache)


def test_R14_default_start_leaves_short_caches_alone(model: Any) -> None:
    cache = make_prompt_cache(model)
    list(
        generate_step(PROMPT, model, max_tokens=4, prompt_cache=cache, kv_bits=8, kv_group_size=32)
    )
    assert all(type(layer) is KVCache for layer in cache)


def test_quantized_cache_goes_on_in_another_call(model: Any) -> None:
    cache: list[Any] = make_prompt_cache(model)
    options: dict[str, Any] = {
        "prompt_cache": cache,
        "kv_bits": 8,
        "kv_group_size": 32,
        "quantized_kv_start": 0,
    }
    list(generate_step(PROMPT, model, max_tokens=3, **options))
    list(generate_step([33], model, max_tokens=3, **options))
    list(generate_step([33], model, max_tokens=3, prompt_cache=cache))
    assert [layer.offset for layer in cache] == [len(PROMPT) + 3 + 1 + 3 + 1 + 3] * 2
