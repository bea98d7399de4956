from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import Cache, KVCache, RotatingKVCache, make_prompt_cache
from mlxlm_generate import (
    Drafter,
    DraftLength,
    InvalidOption,
    NGramDrafter,
    NotSupported,
    generate_step,
    stream_generate,
)
from mlxlm_sample import make_sampler

PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]


def tokens(model: Any, count: int, **options: Any) -> list[int]:
    return [token for token, _ in generate_step(PROMPT, model, max_tokens=count, **options)]


@pytest.mark.parametrize("count", [0, -1])
def test_R03_number_of_guesses_out_of_range(model: Any, count: int) -> None:
    with pytest.raises(InvalidOption, match=f"num_draft_tokens={count}"):
        generate_step(PROMPT, model, drafter=NGramDrafter(), num_draft_tokens=count)


def test_R03_number_of_guesses_without_a_drafter(model: Any) -> None:
    with pytest.raises(InvalidOption, match="num_draft_tokens=2 has no meaning"):
        generate_step(PROMPT, model, num_draft_tokens=2)


def test_R27_ngrams_without_a_draft_model(oracle: Any, tokenizer: Any) -> None:
    answer = list(b"abcd" * 10)
    model = oracle(answer, prompt_tokens=1 + 4)
    plain = list(stream_generate(model, tokenizer, "abcd", 40))
    guessed = list(stream_generate(model, tokenizer, "abcd", 40, drafter=NGramDrafter()))
    assert [r.token for r in guessed] == [r.token for r in plain]
    assert any(r.from_draft for r in guessed)
    assert not any(r.from_draft for r in plain)
    assert guessed[-1].accepted == sum(r.from_draft for r in guessed) <= guessed[-1].drafted
    assert plain[-1].drafted == plain[-1].accepted == 0


def test_a_pass_settles_as_many_tokens_as_were_guessed(
    model: Any, always: Any, knowing: Any
) -> None:
    answer = tokens(model, 21)
    model.fed.clear()
    drafter = knowing(len(PROMPT), answer, wrong=1000)
    assert tokens(model, 21, drafter=drafter, num_draft_tokens=always(4)) == answer
    # The first token comes with the prompt; each pass feeds one and four guesses.
    assert model.fed == [len(PROMPT) - 1, 1, 5, 5, 5, 5]
    assert drafter.ended == len(PROMPT) + 21


class Counted:
    """Counts the waits for arrays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits = 0
        evaluate = mx.eval

        def counting(*arrays: Any) -> None:
            self.waits += 1
            evaluate(*arrays)

        monkeypatch.setattr(mx, "eval", counting)


@pytest.mark.parametrize("temp", [0.0, 1.0])
def test_a_pass_waits_once(
    model: Any, always: Any, knowing: Any, temp: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tokens(model, 21, sampler=make_sampler(temp, key=1))
    steps = generate_step(
        PROMPT, model, max_tokens=21, sampler=make_sampler(temp, key=1),
        drafter=knowing(len(PROMPT), answer, wrong=1000), num_draft_tokens=always(4),
    )  # fmt: skip
    assert next(steps)[0] == answer[0]
    counted = Counted(monkeypatch)
    assert [token for token, _ in steps] == answer[1:]
    assert counted.waits == 3


def test_draws_from_the_global_state_are_those_without_speculation(
    model: Any, always: Any, knowing: Any
) -> None:
    def drawn(**options: Any) -> list[int]:
        mx.random.seed(11)
        return tokens(model, 20, sampler=make_sampler(1.0), **options)

    answer = drawn()
    drafter = knowing(len(PROMPT), answer)
    assert drawn(drafter=drafter, num_draft_tokens=always(4)) == answer


def test_samplers_of_ones_own_are_called_once_for_each_token(
    model: Any, always: Any, knowing: Any
) -> None:
    calls = []

    def sampler(logprobs: mx.array) -> mx.array:
        calls.append(1)
        return mx.argmin(logprobs, axis=-1) if len(calls) % 2 else mx.argmax(logprobs, axis=-1)

    answer = tokens(model, 12, sampler=sampler)
    assert len(calls) == 12
    calls.clear()
    drafter = knowing(len(PROMPT), answer)
    options = {"drafter": drafter, "num_draft_tokens": always(4), "sampler": sampler}
    assert tokens(model, 12, **options) == answer
    assert len(calls) == 12


def test_R10_keys_and_values_are_quantized_at_the_token_they_would_be(
    model: Any, always: Any, knowing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: list[int] = []
    quantize = KVCache.to_quantized

    def noting(self: KVCache, *args: Any, **options: Any) -> Any:
        at.append(self.offset)
        return quantize(self, *args, **options)

    monkeypatch.setattr(KVCache, "to_quantized", noting)
    how = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 15}
    answer = tokens(model, 12, **how)
    plain = at.copy()
    at.clear()
    drafter = knowing(len(PROMPT), answer, wrong=1000)
    assert tokens(model, 12, **how, drafter=drafter, num_draft_tokens=always(4)) == answer
    assert at == plain
    assert plain[-1] == 15


def test_a_cache_that_is_quantized_already_is_speculated_over(
    model: Any, always: Any, knowing: Any
) -> None:
    how: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 0}
    caches = [make_prompt_cache(model) for _ in range(2)]
    for cache in caches:
        tokens(model, 2, prompt_cache=cache, **how)
    answer = tokens(model, 12, prompt_cache=caches[0], **how)
    model.fed.clear()
    drafter = knowing(len(PROMPT), answer, wrong=1000)
    how |= {"drafter": drafter, "num_draft_tokens": always(4)}
    assert tokens(model, 12, prompt_cache=caches[1], **how) == answer
    assert 5 in model.fed


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("call", range(6))
def test_an_exception_leaves_what_was_yielded(
    model: Any,
    always: Any,
    knowing: Any,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    call: int,
) -> None:
    """Between two layers of any step: of the prompt, of the first token, of a pass."""
    cache = make_prompt_cache(model)
    answer = tokens(model, 12)
    layer = type(model.layers[1])
    calls, forward = [0], layer.__call__

    def failing(self: Any, *args: Any) -> Any:
        if self is model.layers[1]:
            calls[0] += 1
            if calls[0] == call + 1:
                raise error
        return forward(self, *args)

    monkeypatch.setattr(layer, "__call__", failing)
    yielded: list[int] = []

    def run(steps: Any) -> None:
        for token, _ in steps:
            yielded.append(token)

    steps = generate_step(
        PROMPT, model, max_tokens=12, prompt_cache=cache, prefill_step_size=4,
        drafter=knowing(len(PROMPT), answer, wrong=3), num_draft_tokens=always(3),
    )  # fmt: skip
    with pytest.raises(error):
        run(steps)
    prompt = [0, 4, 7, 8, 8, 8][call]
    assert [layer.offset for layer in cache] == [prompt + len(yielded)] * 2
    assert yielded == answer[: len(yielded)]
    assert bool(yielded) == (call > 3)


class Endless(KVCache):
    """Keeps its tokens for good."""

    def is_trimmable(self) -> bool:
        return False


def test_R23_caches_that_can_never_go_back_are_refused(model: Any) -> None:
    caches: list[Cache] = [RotatingKVCache(8), Endless()]
    with pytest.raises(NotSupported, match="Endless, RotatingKVCache"):
        generate_step(PROMPT, model, prompt_cache=caches, drafter=NGramDrafter())
    assert caches[0].checkpointed == 0


class Wild(Drafter):
    """Guesses more than was asked for, and what is no token."""

    def extend(self, tokens: Any, /) -> None: ...

    def propose(self, limit: int, draw: Any, /) -> Any:
        return mx.full((2 * limit,), 10**6)


def test_guesses_that_are_no_tokens_are_refused(model: Any, always: Any) -> None:
    answer = tokens(model, 9)
    assert tokens(model, 9, drafter=Wild(), num_draft_tokens=always(3)) == answer


def test_what_one_call_learned_lasts_for_the_next(model: Any) -> None:
    length = DraftLength(3)
    tokens(model, 8, drafter=NGramDrafter(), num_draft_tokens=length)
    for _ in range(9):
        length.plain(1e9)  # plain steps are slow: speculation pays
    model.fed.clear()
    tokens(model, 9, drafter=Wild(), num_draft_tokens=length)
    assert model.fed[2] > 1  # at once, with no plain step to measure
    model.fed.clear()
    tokens(model, 9, drafter=Wild(), num_draft_tokens=3)
    assert model.fed[2:4] == [1, 1]
