from collections.abc import Callable
from copy import deepcopy
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import Cache, KVCache, make_prompt_cache
from mlxlm_generate import (
    DraftLength,
    InvalidOption,
    InvalidPrompt,
    ModelDrafter,
    NGramDrafter,
    NotSupported,
    generate_step,
    stream_generate,
)
from mlxlm_sample import make_sampler

PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]


def tokens(model: Any, count: int, prompt: list[int] = PROMPT, **options: Any) -> list[int]:
    return [token for token, _ in generate_step(prompt, model, max_tokens=count, **options)]


@pytest.fixture(scope="session")
def alike(model: Any) -> Any:
    """A draft that is right now and then: the target's weights with noise."""
    draft = deepcopy(model)
    noise = mx.random.normal(model.head.weight.shape, key=mx.random.key(0))
    draft.head.weight = model.head.weight + 0.02 * noise
    mx.eval(draft.parameters())
    return draft


@pytest.fixture(params=["plain", "windows", "recurrent", "lists"])
def draft(request: pytest.FixtureRequest, alike: Any) -> Any:
    """Drafts over caches of several classes."""
    names = {"windows": "rotating_model", "recurrent": "hybrid_model", "lists": "lists_model"}
    return request.getfixturevalue(names[request.param]) if request.param in names else alike


@pytest.mark.parametrize("temp", [0.0, 1.0])
def test_R23_tokens_and_both_caches_are_those_of_plain_decoding(
    model: Any, draft: Any, always: Any, temp: float
) -> None:
    plain = make_prompt_cache(model)
    answer = tokens(model, 25, sampler=make_sampler(temp, key=3), prompt_cache=plain)
    expected = draft.make_cache()
    draft(mx.array([[*PROMPT, *answer]]), cache=expected)
    cache = make_prompt_cache(model) + make_prompt_cache(draft)
    guessed = tokens(
        model, 25, sampler=make_sampler(temp, key=3), prompt_cache=cache,
        draft_model=draft, num_draft_tokens=always(3),
    )  # fmt: skip
    assert guessed == answer
    assert [c.tokens_seen for c in cache] == [len(PROMPT) + 25] * 4
    after = draft(mx.array([[9]]), cache=expected)
    assert mx.allclose(draft(mx.array([[9]]), cache=cache[2:]), after, atol=1e-4)
    assert tokens(model, 5, [9], prompt_cache=cache[:2]) == tokens(
        model, 5, [9], prompt_cache=plain
    )


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5, 9])
def test_an_abandoned_generation_leaves_the_same_tokens_in_both_caches(
    model: Any, draft: Any, always: Any, stop: int
) -> None:
    cache = make_prompt_cache(model) + make_prompt_cache(draft)
    steps = generate_step(
        PROMPT, model, prompt_cache=cache, draft_model=draft, num_draft_tokens=always(4)
    )
    for _ in range(stop):
        next(steps)
    steps.close()
    assert [c.tokens_seen for c in cache] == [len(PROMPT) + stop] * 4


def test_the_target_itself_is_always_right(model: Any, always: Any) -> None:
    answer = tokens(model, 21)
    model.fed.clear()
    assert tokens(model, 21, draft_model=model, num_draft_tokens=always(4)) == answer
    assert [n for n in model.fed if n > 2] == [len(PROMPT) - 1] * 2 + [5] * 4


def test_R26_drawn_guesses_agree_more_often_than_by_chance(
    model: Any, tokenizer: Any, always: Any
) -> None:
    """The draft draws with the target's own keys, so the same model draws the same."""
    *_, last = stream_generate(
        model, tokenizer, PROMPT, 41, draft_model=model,
        num_draft_tokens=always(4), sampler=make_sampler(1.0, key=8),
    )  # fmt: skip
    assert last.accepted == last.drafted > 20


def test_R25_a_cache_of_the_target_alone_is_enough(
    model: Any, alike: Any, always: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caches = [make_prompt_cache(model) for _ in range(2)]
    answers = []
    for cache, options in zip(
        caches, ({}, {"draft_model": alike, "num_draft_tokens": always(3)}), strict=True
    ):
        answers.append(tokens(model, 9, prompt_cache=cache, **options))
        answers.append(tokens(model, 9, [5, 6], prompt_cache=cache, **options))
        assert [c.tokens_seen for c in cache] == [len(PROMPT) + 9 + 2 + 9] * 2
    assert answers[:2] == answers[2:]
    assert "The draft model has seen 0 tokens and the model 17" in caplog.text


def test_R25_another_number_of_layers_is_an_error(model: Any, alike: Any) -> None:
    cache = make_prompt_cache(model) + make_prompt_cache(alike)
    with pytest.raises(InvalidOption, match=r"3 layers, the model 2 and the draft_model 2"):
        generate_step(PROMPT, model, prompt_cache=cache[:3], draft_model=alike)


def test_R03_a_bound_holds_for_both_models(
    model: Any, alike: Any, always: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tokens(model, 20, max_kv_size=12)
    made: list[list[Cache]] = []
    init = ModelDrafter.__init__

    def noting(self: ModelDrafter, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        made.append(self.cache)

    monkeypatch.setattr(ModelDrafter, "__init__", noting)
    heard: list[tuple[int, int]] = []
    how: dict[str, Any] = {"draft_model": alike, "num_draft_tokens": always(3)}
    how["prompt_progress_callback"] = lambda done, total: heard.append((done, total))
    assert tokens(model, 20, max_kv_size=12, **how) == answer
    assert {c.max_size for c in made[0]} == {12}  # type: ignore[attr-defined]
    assert heard[-1] == (8, 8)


def test_R10_keys_and_values_of_both_are_quantized(model: Any, alike: Any, always: Any) -> None:
    how: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 13}
    answer = tokens(model, 20, **how)
    cache = make_prompt_cache(model) + make_prompt_cache(alike)
    how |= {"draft_model": alike, "num_draft_tokens": always(3), "prompt_cache": cache}
    assert tokens(model, 20, **how) == answer
    assert [type(c).__name__ for c in cache] == ["QuantizedKVCache"] * 4
    assert [c.tokens_seen for c in cache] == [28] * 4


class Small:
    """A draft of another vocabulary, which says the token it got plus one."""

    layers = (None,)

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, tokens: mx.array, cache: list[Cache]) -> mx.array:
        dummy = mx.zeros((1, 1, tokens.shape[1], 32))
        cache[0].update_and_fetch(dummy, dummy)
        assert mx.all(tokens < self.size).item()
        return 5.0 * (mx.arange(self.size) == tokens[..., None] + 1)


@pytest.mark.parametrize("size", [100, 300])
def test_R24_a_draft_of_another_vocabulary_size_does_no_harm(
    model: Any, always: Any, size: int
) -> None:
    prompt = [1, 120, 250]
    answer = tokens(model, 20, prompt)
    options: dict[str, Any] = {"draft_model": Small(size), "num_draft_tokens": always(3)}
    assert tokens(model, 20, prompt, **options) == answer


class Endless(KVCache):
    def is_trimmable(self) -> bool:
        return False


def test_R23_a_draft_that_can_never_go_back_is_refused(model: Any) -> None:
    draft = type(model)(lambda: [Endless(), Endless()])
    with pytest.raises(NotSupported, match="Endless"):
        generate_step(PROMPT, model, draft_model=draft)


def test_one_of_a_drafter_and_a_draft_model(model: Any) -> None:
    with pytest.raises(InvalidOption, match="give one of them"):
        generate_step(PROMPT, model, draft_model=model, drafter=NGramDrafter())


def test_a_draft_reads_tokens_not_embeddings(model: Any) -> None:
    with pytest.raises(InvalidPrompt, match="give them together with input_embeddings"):
        generate_step([], model, draft_model=model, input_embeddings=mx.zeros((3, 64)))


def test_no_guess_before_there_is_something_new(model: Any) -> None:
    drafter = ModelDrafter(model)

    def likeliest(logits: mx.array) -> mx.array:
        return mx.argmax(logits, axis=-1)

    drafter.extend(PROMPT)
    expected = tokens(model, 7)
    assert drafter.propose(3, likeliest).tolist() == expected[:3]
    assert drafter.propose(3, likeliest).size == 0
    drafter.extend(expected[:4])
    assert drafter.propose(3, likeliest).tolist() == expected[4:7]


def interrupted(model: Any, draft: Any, call: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have a call of the draft's second layer fail."""
    layer = type(draft.layers[1])
    forward: Callable[..., Any] = layer.__call__
    calls = [0]

    def failing(self: Any, *args: Any) -> Any:
        if self is draft.layers[1]:
            calls[0] += 1
            if calls[0] == call:
                raise KeyboardInterrupt
        return forward(self, *args)

    monkeypatch.setattr(layer, "__call__", failing)


@pytest.mark.parametrize("call", range(1, 9))
def test_ctrl_c_in_the_draft_leaves_what_was_yielded(
    model: Any, alike: Any, always: Any, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = make_prompt_cache(model) + make_prompt_cache(alike)
    interrupted(model, alike, call, monkeypatch)
    yielded: list[int] = []
    steps = generate_step(
        PROMPT, model, prompt_cache=cache, draft_model=alike, num_draft_tokens=always(3)
    )

    def run() -> None:
        for token, _ in steps:
            yielded.append(token)

    with pytest.raises(KeyboardInterrupt):
        run()
    fed = [c.tokens_seen for c in cache]
    assert fed[0] == fed[1] <= len(PROMPT) + len(yielded)
    assert fed[2] == fed[3] <= len(PROMPT) + len(yielded)
    if yielded:
        assert set(fed) == {len(PROMPT) + len(yielded)}


def test_after_a_pause_the_draft_catches_up(model: Any, alike: Any) -> None:
    class Now(DraftLength):
        """Plain steps, then guesses."""

        steps = 0

        def next(self) -> int:
            self.steps += 1
            return 0 if self.steps < 12 else 3

    answer = tokens(model, 30)
    assert tokens(model, 30, draft_model=alike, num_draft_tokens=Now(3)) == answer
