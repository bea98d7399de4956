"""R59: whatever runs beside it, a request has the tokens that it has alone."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import (
    Cache,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    RotatingQuantizedKVCache,
)
from mlxlm_generate import (
    BatchGenerator,
    Drafter,
    DraftLength,
    ModelDrafter,
    NGramDrafter,
    generate_step,
)
from mlxlm_generate.batch import guessing
from mlxlm_sample import SamplingWarning, make_logits_processors, make_sampler

VOCAB = 258
PACKED = {"group_size": 32, "bits": 8}

STACKS: dict[str, Callable[[], list[Cache]]] = {
    "plain": lambda: [KVCache(), KVCache()],
    "windows": lambda: [KVCache(), RotatingKVCache(7)],
    "sinks": lambda: [RotatingKVCache(9, keep=2), RotatingKVCache(6, keep=4)],
    "chunks": lambda: [ChunkedKVCache(5), ConcatenateKVCache()],
    "packed": lambda: [QuantizedKVCache(**PACKED), RotatingQuantizedKVCache(8, 2, **PACKED)],
}
Tokens = st.lists(st.integers(0, 255), min_size=1, max_size=24)
Penalties = st.fixed_dictionaries(
    {},
    optional={
        "logit_bias": st.just({5: 1.5, 90: -1.0}),
        "repetition_penalty": st.sampled_from([0.8, 1.3]),
        "repetition_context_size": st.sampled_from([2, None]),
        "presence_penalty": st.just(0.5),
        "frequency_penalty": st.just(0.4),
        "frequency_context_size": st.sampled_from([3, None]),
    },
)


@dataclass(frozen=True)
class Plan:
    """A request: when it joins, what it asks, and after how many tokens it is taken out."""

    prompt: list[int]
    max_tokens: int
    joins: int
    leaves: int | None
    sampling: dict[str, Any] | None
    seed: int
    penalties: dict[str, Any]
    own_processor: bool
    own_sampler: bool
    constrained: bool
    history: list[int] | None

    def sampler(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            made = make_sampler(**(self.sampling or {}), key=self.seed)
        if self.own_sampler:
            return lambda logprobs: made(logprobs)  # each call draws from the next key
        return self.sampling and made

    def processors(self) -> Any:
        own = [lambda tokens, logits: logits * 0.5 + tokens[-1] % 7 * 0.01]
        return make_logits_processors(**self.penalties) + own * self.own_processor


class Neighbours:
    """Forbids a third of the tokens, depending on the one before."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = list(tokens)

    def mask(self) -> mx.array:
        return allowed(self.tokens[-1])

    def advance(self, token: int) -> None:
        assert self.mask()[token].item()
        self.tokens.append(token)

    def rollback(self, n: int) -> None:
        del self.tokens[len(self.tokens) - n :]


def allowed(before: Any) -> mx.array:
    return (mx.arange(VOCAB) + before) % 3 != 0


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    return Plan(
        prompt=draw(Tokens),
        max_tokens=draw(st.integers(1, 9)),
        joins=draw(st.integers(0, 8)),
        leaves=draw(st.none() | st.none() | st.integers(1, 3)),
        sampling=draw(
            st.none()
            | st.fixed_dictionaries(
                {
                    "temp": st.sampled_from([0.0, 0.7, 1.3]),
                    "top_p": st.sampled_from([0.0, 0.8]),
                    "top_k": st.sampled_from([0, 9]),
                    "min_p": st.sampled_from([0.0, 0.1]),
                }
            )
        ),
        seed=draw(st.integers(0, 99)),
        penalties=draw(st.just({}) | Penalties),
        own_processor=draw(st.integers(0, 5)) == 5,
        own_sampler=draw(st.integers(0, 5)) == 5,
        constrained=draw(st.integers(0, 3)) == 3,
        history=draw(st.none() | st.none() | Tokens),
    )


@st.composite
def engines(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.sampled_from([3, 8, 64]))
    return {
        "completion_batch_size": draw(st.integers(1, 5)),
        "prefill_batch_size": draw(st.integers(1, 4)),
        "prefill_step_size": size,
        "interleaved_step_size": size,
    }


def filled(model: Any, tokens: list[int]) -> list[Cache]:
    caches: list[Cache] = model.make_cache()
    model(mx.array([tokens]), cache=caches)
    mx.eval([c.state for c in caches])
    return caches


def alone(model: Any, plan: Plan, step_size: int, **options: Any) -> list[int]:
    cache = filled(model, plan.history) if plan.history else None
    processors = plan.processors()
    if plan.constrained:
        processors.append(lambda ids, logits: mx.where(allowed(ids[-1]), logits, -mx.inf))
    steps = generate_step(
        plan.prompt,
        model,
        max_tokens=plan.max_tokens,
        sampler=plan.sampler(),
        logits_processors=processors,
        prompt_cache=cache,
        prefill_step_size=step_size,
        **options,
    )
    return [token for token, _ in steps]


def together(model: Any, requests: list[Plan], engine: dict[str, Any]) -> list[list[int]]:
    """Run all of them; check what comes with the tokens; return the tokens."""
    answers: dict[int, list[int]] = {}
    uids: dict[int, int] = {}
    with BatchGenerator(model, **engine) as generator:
        step = 0
        while step <= 8 or not generator.idle:
            for number, plan in enumerate(requests):
                if plan.joins == step:
                    (uid,) = generator.insert(
                        [plan.prompt],
                        plan.max_tokens,
                        caches=[filled(model, plan.history) if plan.history else None],
                        samplers=[plan.sampler()],
                        logits_processors=[plan.processors()],
                        constraints=[Neighbours(plan.prompt) if plan.constrained else None],
                    )
                    uids[uid], answers[number] = number, []
            prompts, responses = generator.next()
            running: set[int] = set()
            assert all(0 < done <= total for done, total in (p.progress for p in prompts))
            assert len(prompts) <= engine["prefill_batch_size"]
            for response in responses:
                number = uids[response.uid]
                plan = requests[number]
                assert response.error is None
                assert response.token is not None
                answers[number].append(response.token)
                assert (response.finish_reason == "length") == (
                    len(answers[number]) == plan.max_tokens
                )
                seen = len(plan.history or []) + len(plan.prompt) + len(answers[number])
                if response.finish_reason:
                    running.discard(response.uid)
                    assert response.prompt_cache is not None
                    assert max(c.tokens_seen for c in response.prompt_cache) == seen
                else:
                    running.add(response.uid)
            for uid in running:
                number = uids[uid]
                plan = requests[number]
                if plan.leaves is not None and plan.leaves <= len(answers[number]):
                    seen = len(plan.history or []) + len(plan.prompt) + len(answers[number])
                    cache, tokens = generator.remove([uid], True)[uid]
                    assert max(c.tokens_seen for c in cache) == seen
                    assert tokens == [*plan.prompt, *answers[number]]
            step += 1
        assert generator.prompt_cache_nbytes == 0
    return [answers[number] for number in range(len(requests))]


def compare(model: Any, requests: list[Plan], engine: dict[str, Any], **options: Any) -> None:
    answers = together(model, requests, {**engine, **options})
    for plan, answer in zip(requests, answers, strict=True):
        expected = alone(model, plan, engine["prefill_step_size"], **options)
        wanted = len(answer) if plan.leaves is not None else plan.max_tokens
        assert answer == expected[:wanted], plan


class Always(DraftLength):
    """Guesses each time, whatever it takes."""

    def next(self) -> int:
        return self.longest


class Knowing(Drafter):
    """Guesses another greedy run of the model: right for some rows and in part."""

    def __init__(self, model: Any, wrong: int) -> None:
        self.model, self.wrong, self.tokens = model, wrong, list[int]()
        self.ended = False

    def extend(self, tokens: Any, /) -> None:
        self.tokens += tokens

    def propose(self, limit: int, draw: Any, /) -> list[int]:
        text = list(self.tokens)
        for _ in range(limit):
            best: Any = draw(self.model(mx.array([text]))[:, -1]).item()
            text.append(best + (len(text) % self.wrong == 0))
        return text[len(self.tokens) :]

    def finish(self, tokens: int, /) -> None:
        self.ended = True


Guesses = {
    "requests": st.lists(plans(), min_size=1, max_size=6),
    "engine": engines(),
    "wrong": st.integers(2, 5),
    "longest": st.integers(1, 4),
}


def compare_guessing(
    model: Any,
    kind: str,
    requests: list[Plan],
    engine: dict[str, Any],
    wrong: int,
    longest: int,
    **options: Any,
) -> None:
    made: list[Knowing] = []

    def knowing() -> Knowing:
        made.append(Knowing(model, wrong))
        return made[-1]

    other = type(model)(model.caches, [type(layer) for layer in model.layers])
    mx.eval(other.parameters())
    drafts = cycle((model, other))  # one is often right, the other hardly ever
    engine["drafter"] = {
        "knowing": knowing,
        "ngrams": lambda: NGramDrafter(2, 1),
        "draft": lambda: ModelDrafter(next(drafts)),
    }[kind]
    engine["num_draft_tokens"] = longest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guessing, "DraftLength", Always)
        compare(model, requests, engine, **options)
    assert all(drafter.ended for drafter in made)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("kind", ["knowing", "ngrams", "draft"])
@settings(max_examples=10, deadline=None)
@given(**Guesses, start=st.none() | st.integers(0, 20))
def test_R27_R59_R28_tokens_are_those_of_a_solo_run_with_guesses(
    model: Any, stack: str, kind: str, start: int | None, **plan: Any
) -> None:
    options: dict[str, Any] = {}
    if start is not None and stack in ("plain", "windows", "sinks"):
        options = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": start}
    model.caches = STACKS[stack]
    try:
        compare_guessing(model, kind, **plan, **options)
    finally:
        model.caches = None


@pytest.mark.parametrize("kind", ["knowing", "ngrams", "draft"])
@settings(max_examples=10, deadline=None)
@given(**Guesses)
def test_R23_R27_R59_recurrent_rows_with_guesses(hybrid_model: Any, kind: str, **plan: Any) -> None:
    compare_guessing(hybrid_model, kind, **plan)


@pytest.mark.parametrize("kind", ["knowing", "draft"])
@settings(max_examples=10, deadline=None)
@given(**Guesses)
def test_R23_R27_R59_lists_of_caches_with_guesses(lists_model: Any, kind: str, **plan: Any) -> None:
    compare_guessing(lists_model, kind, **plan)


def test_R27_guesses_settle_several_tokens_of_all_rows_in_a_step(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guessing, "DraftLength", Always)
    prompts = [[1, 2, 3], [9, 8, 7, 6], [5]]
    alone = [[t for t, _ in generate_step(p, model, max_tokens=13)] for p in prompts]
    with BatchGenerator(model, drafter=lambda: Knowing(model, 10**6)) as generator:
        uids = generator.insert(prompts, 13)
        answers: dict[int, list[int]] = {uid: [] for uid in uids}
        drafted, calls = 0, 0
        while responses := generator.next_generated():
            calls += 1
            for response in responses:
                assert response.token is not None
                answers[response.uid].append(response.token)
                drafted += response.from_draft
    assert list(answers.values()) == alone
    assert drafted > 20
    assert calls < 9


Schedule = st.lists(plans(), min_size=1, max_size=6)


@pytest.mark.parametrize("stack", STACKS)
@settings(max_examples=12, deadline=None)
@given(requests=Schedule, engine=engines())
def test_R59_R28_tokens_are_those_of_a_solo_run(
    model: Any, stack: str, requests: list[Plan], engine: dict[str, Any]
) -> None:
    model.caches = STACKS[stack]
    try:
        compare(model, requests, engine)
    finally:
        model.caches = None


@settings(max_examples=12, deadline=None)
@given(requests=Schedule, engine=engines())
def test_R59_recurrent_layers(
    hybrid_model: Any, requests: list[Plan], engine: dict[str, Any]
) -> None:
    compare(hybrid_model, requests, engine)


@settings(max_examples=15, deadline=None)
@given(
    requests=Schedule,
    engine=engines(),
    start=st.integers(0, 20),
    bound=st.none() | st.just(12),
)
def test_R59_R10_keys_and_values_that_are_quantized_on_the_way(
    model: Any, requests: list[Plan], engine: dict[str, Any], start: int, bound: int | None
) -> None:
    options = {"kv_bits": 2, "kv_group_size": 32, "quantized_kv_start": start}
    requests = [plan for plan in requests if not (bound and plan.history)]
    if requests:
        compare(model, requests, engine, max_kv_size=bound, **options)
