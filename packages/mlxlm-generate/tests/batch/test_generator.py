import time
from threading import Thread
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, make_prompt_cache
from mlxlm_generate import (
    BatchGenerator,
    InvalidOption,
    InvalidPrompt,
    Request,
    StopSequenceMatcher,
    StopStringMatcher,
    TokenResponse,
    generate_step,
)
from mlxlm_sample import SamplingOptionError, make_logits_processors, make_sampler

PROMPTS = [list(b"hello"), list(b"a"), list(b"what is it?")]


def alone(model: Any, prompt: list[int], count: int, **options: Any) -> list[int]:
    return [t for t, _ in generate_step(prompt, model, max_tokens=count, **options)]


def run(generator: BatchGenerator) -> dict[int, list[TokenResponse]]:
    out: dict[int, list[TokenResponse]] = {}
    while responses := generator.next_generated():
        for response in responses:
            out.setdefault(response.uid, []).append(response)
    return out


def tokens(responses: list[TokenResponse]) -> list[int]:
    return [r.token for r in responses if r.token is not None]


def test_a_request_that_joins_does_not_wait_for_the_others_to_end(model: Any) -> None:
    with BatchGenerator(model, max_tokens=12) as generator:
        (first,) = generator.insert([PROMPTS[0]])
        for _ in range(3):
            generator.next_generated()
        (second,) = generator.insert([PROMPTS[1]], max_tokens=2)
        order = [(r.uid, r.finish_reason) for rs in iter(generator.next_generated, []) for r in rs]
    assert order.index((second, "length")) < order.index((first, "length"))


def test_running_streams_wait_for_one_chunk_of_a_long_prompt_at_most(model: Any) -> None:
    with BatchGenerator(model, max_tokens=30, interleaved_step_size=8) as generator:
        generator.insert([PROMPTS[0]])
        generator.next_generated()
        (long,) = generator.insert([list(range(1, 82))], max_tokens=1)
        model.fed.clear()
        while not any(r.uid == long for r in generator.next_generated()):
            pass
        chunks = [n for n in model.fed if n > 1]
        assert chunks == [8] * 10
        places = [i for i, n in enumerate(model.fed) if n > 1]
        assert all(b - a == 2 for a, b in zip(places, places[1:], strict=False))


def test_short_prompts_are_processed_together(model: Any) -> None:
    with BatchGenerator(model, max_tokens=1, return_prompt_caches=False) as generator:
        model.fed.clear()
        generator.insert(PROMPTS)
        run(generator)
    assert model.fed == [1, 10, 1]  # the first to learn how much memory a cache takes


def test_settings_of_every_request(model: Any) -> None:
    samplers = [make_sampler(temp=1.0, key=4), None, lambda lp: mx.argmin(lp, axis=-1)]
    processors: list[Any] = [None, make_logits_processors(logit_bias={9: 1e4}), []]
    with BatchGenerator(model) as generator:
        uids = generator.insert(PROMPTS, [4, 3, 5], samplers=samplers, logits_processors=processors)
        out = run(generator)
    for uid, prompt, count, sampler, own in zip(
        uids, PROMPTS, [4, 3, 5], samplers, processors, strict=True
    ):
        kept = make_sampler(temp=1.0, key=4) if uid == uids[0] else sampler
        expected = alone(model, prompt, count, sampler=kept, logits_processors=own)
        assert tokens(out[uid]) == expected


def test_R30_some_requests_have_processors_and_some_none(model: Any) -> None:
    """Of one batch, in any order of joining; the engine's own are for those that have none."""
    own = make_logits_processors(logit_bias={3: 1e4})
    with BatchGenerator(model, logits_processors=own, max_tokens=3) as generator:
        uids = generator.insert(PROMPTS, logits_processors=[[], None, []])
        out = run(generator)
    assert [tokens(out[uid]) == [3] * 3 for uid in uids] == [False, True, False]


def test_known_processors_are_not_called_row_by_row(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from the first token on, nor for a request that joins later, beside others."""
    settings: list[dict[str, Any]] = [
        {"repetition_penalty": 1.4, "repetition_context_size": None},
        {"presence_penalty": 0.7, "logit_bias": {3: 4.0}},
        {},
        {"frequency_penalty": 0.9},
    ]
    prompts = [*PROMPTS, list(b"late")]
    processors = [make_logits_processors(**s) for s in settings]
    expected = [
        alone(model, prompt, 9, logits_processors=p)
        for prompt, p in zip(prompts, processors, strict=True)
    ]

    def call(*args: Any) -> None:
        raise AssertionError("called for one row")

    monkeypatch.setattr(type(processors[0][0]), "__call__", call)
    with BatchGenerator(model, max_tokens=9) as generator:
        uids = generator.insert(prompts[:3], logits_processors=processors[:3])
        early = [generator.next_generated() for _ in range(3)]
        uids += generator.insert(prompts[3:], logits_processors=processors[3:])
        out = run(generator)
    answers = {uid: [r.token for step in early for r in step if r.uid == uid] for uid in uids}
    assert [answers[uid] + tokens(out[uid]) for uid in uids] == expected


def test_R31_a_bias_outside_of_the_vocabulary_ends_its_request_alone(model: Any) -> None:
    biases = [make_logits_processors({n: 1.0}) for n in (3, 258, 4)]
    with BatchGenerator(model, max_tokens=4) as generator:
        uids = generator.insert(PROMPTS, logits_processors=biases)
        out = run(generator)
    (failed,) = out[uids[1]]
    assert "token 258" in str(failed.error)
    for i in (0, 2):
        assert tokens(out[uids[i]]) == alone(model, PROMPTS[i], 4, logits_processors=biases[i])


@pytest.mark.parametrize("where", ["processor", "sampler", "matcher", "constraint", "advance"])
@pytest.mark.parametrize("at", [0, 2])
def test_R31_what_fails_ends_its_request_alone(model: Any, where: str, at: int) -> None:
    class Broken:
        calls = 0

        def fail(self, result: Any = None) -> Any:
            self.calls += 1
            if self.calls > at:
                raise RuntimeError("broken")
            return result

        def start(self) -> "Broken":
            return self

        def mask(self) -> Any:
            return self.fail() if where == "constraint" else None

        def advance(self, token: int) -> None:
            if where != "constraint":
                self.fail()

        def rollback(self, n: int) -> None: ...

    broken = Broken()
    options: dict[str, Any] = {
        "processor": {"logits_processors": [lambda _, logits: broken.fail(logits)]},
        "sampler": {"sampler": lambda lp: broken.fail(mx.argmax(lp, axis=-1))},
        "matcher": {"stop_matcher": broken},
    }.get(where, {"constraint": broken})
    with BatchGenerator(model) as generator:
        uids = generator.submit(
            [
                Request([PROMPTS[0]], 6),
                Request([PROMPTS[1]], 6, **options),
                Request([PROMPTS[2]], 6, logprobs=2),
            ]
        )
        out = run(generator)
        assert generator.idle
    *given, last = out[uids[1]]
    assert str(last.error) == "broken"
    assert (last.finish_reason, last.token) == ("error", None)
    expected = alone(model, PROMPTS[1], 6)
    late = where in ("matcher", "advance")  # these are asked about a token that there is
    assert tokens(given) == expected[: at + late]
    for i in (0, 2):
        assert tokens(out[uids[i]]) == alone(model, PROMPTS[i], 6)


@pytest.mark.parametrize(
    "options",
    [
        {"logits_processors": [lambda _, logits: logits[:, :5]]},
        {"logits_processors": [lambda _, logits: None]},
        {"sampler": lambda lp: mx.zeros((2,), dtype=mx.uint32)},
        {"sampler": make_sampler(temp=1.0, top_k=300)},
    ],
)
def test_R31_results_of_a_wrong_shape_are_errors(model: Any, options: dict[str, Any]) -> None:
    with BatchGenerator(model) as generator:
        good, bad = generator.submit(
            [Request([PROMPTS[0]], 4), Request([PROMPTS[1]], 4, **options)]
        )
        out = run(generator)
    assert isinstance(out[bad][-1].error, (ValueError, SamplingOptionError))
    assert tokens(out[bad]) == []
    assert tokens(out[good]) == alone(model, PROMPTS[0], 4)


def test_R31_a_prompt_that_the_model_refuses_leaves_the_others(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = type(model).__call__

    def picky(self: Any, ids: mx.array, **options: Any) -> mx.array:
        if (ids == 255).any().item():
            raise RuntimeError("no 255")
        return original(self, ids, **options)

    monkeypatch.setattr(type(model), "__call__", picky)
    with BatchGenerator(model, max_tokens=4) as generator:
        uids = generator.insert([PROMPTS[0], [1, 255, 3], PROMPTS[2]])
        out = run(generator)
    assert str(out[uids[1]][-1].error) == "no 255"
    for i in (0, 2):
        assert tokens(out[uids[i]]) == alone(model, PROMPTS[i], 4)


def test_R31_a_step_that_fails_ends_what_runs_and_not_what_waits(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failing = type(model).__call__, True

    def sometimes(self: Any, ids: mx.array, **options: Any) -> mx.array:
        if failing and ids.shape == (2, 1):
            raise RuntimeError("step")
        return original(self, ids, **options)

    monkeypatch.setattr(type(model), "__call__", sometimes)
    with BatchGenerator(model, max_tokens=4, completion_batch_size=2, prefill_batch_size=2) as g:
        uids = g.insert(PROMPTS)
        first = g.next_generated()
        assert {(r.uid, str(r.error)) for r in first} == {(uids[0], "step"), (uids[1], "step")}
        failing = False
        assert tokens(run(g)[uids[2]]) == alone(model, PROMPTS[2], 4)


def test_stop_tokens_and_matchers(model: Any, tokenizer: Any) -> None:
    expected = [alone(model, p, 12) for p in PROMPTS]
    stop = [[expected[0][2]], expected[2][2:4]]
    matchers = [None, StopSequenceMatcher([expected[1][3:5]]), None]
    with BatchGenerator(model, max_tokens=12, stop_tokens=stop) as generator:
        uids = generator.insert(PROMPTS, stop_matchers=matchers)
        out = run(generator)
    lasts = [out[uid][-1] for uid in uids]
    assert [last.finish_reason for last in lasts] == ["stop"] * 3
    first = [
        next(i for i, t in enumerate(e) if t == stop[0][0]) if stop[0][0] in e else 99
        for e in expected
    ]
    assert tokens(out[uids[0]]) == expected[0][: first[0] + 1]
    assert lasts[0].token == stop[0][0]
    if first[1] > 4:
        assert lasts[1].match == tuple(expected[1][3:5])
        assert tokens(out[uids[1]]) == expected[1][:5]
    text = tokenizer.decode(alone(model, [104], 30))
    wanted = next(c for c in text if c.isascii())
    with BatchGenerator(model, max_tokens=30) as generator:
        (uid,) = generator.insert([[104]], stop_matchers=[StopStringMatcher([wanted], tokenizer)])
        last = run(generator)[uid][-1]
    assert (last.finish_reason, last.match) == ("stop", wanted)


def test_min_tokens_and_ignore_eos(model: Any) -> None:
    expected = alone(model, PROMPTS[0], 8)
    options: Any = {"stop_tokens": [[t] for t in expected], "max_tokens": 8}
    with BatchGenerator(model, **options) as generator:
        plain, least, ignoring = generator.insert(
            [PROMPTS[0]] * 3, min_tokens=[0, 5, 0], ignore_eos=[False, False, True]
        )
        out = run(generator)
    assert tokens(out[plain]) == expected[:1]
    assert tokens(out[ignoring]) == expected
    assert len(out[least]) >= 5
    assert not set(tokens(out[least])[:5]) & set(expected)


def test_constraints_decide_what_may_come(model: Any) -> None:
    class Counting:
        """Allows the number after the latest one."""

        def __init__(self, number: int) -> None:
            self.number = number

        def mask(self) -> mx.array:
            return mx.arange(200) == self.number

        def advance(self, token: int) -> None:
            assert token == self.number
            self.number += 1

        def rollback(self, n: int) -> None:
            self.number -= n

    with BatchGenerator(model, max_tokens=5) as generator:
        uids = generator.insert(PROMPTS, constraints=[Counting(7), None, Counting(90)])
        out = run(generator)
    assert tokens(out[uids[0]]) == [7, 8, 9, 10, 11]
    assert tokens(out[uids[1]]) == alone(model, PROMPTS[1], 5)
    assert tokens(out[uids[2]]) == [90, 91, 92, 93, 94]


def test_R60_log_probabilities_that_were_asked_for(model: Any) -> None:
    wishes: list[Any] = ["full", None, 3, "sampled", 1]
    prompts = [PROMPTS[0]] * 5
    with BatchGenerator(model, max_tokens=3) as generator:
        uids = generator.insert(prompts, logprobs=wishes)
        out = run(generator)
    steps = list(generate_step(PROMPTS[0], model, max_tokens=3))
    for place, (token, everything) in enumerate(steps):
        full, none, three, sampled, one = (out[uid][place] for uid in uids)
        assert (none.logprob, none.top_logprobs, none.logprobs) == (None, None, None)
        value = pytest.approx(everything[token].item(), abs=1e-4)
        assert [r.logprob for r in (full, three, sampled, one)] == [value] * 4
        assert full.logprobs is not None
        assert mx.allclose(full.logprobs, everything, atol=1e-4)
        assert three.top_logprobs is not None
        assert len(three.top_logprobs) == 3
        assert three.top_logprobs[0] == (token, three.logprob)
        assert one.top_logprobs == ((token, one.logprob),)
        assert sampled.top_logprobs is None


def test_segments_end_where_they_were_cut(model: Any) -> None:
    parts = [[1, 2, 3], [4, 5, 6, 7], [8]]
    whole = [token for part in parts for token in part]
    with BatchGenerator(model, max_tokens=3, prefill_step_size=2) as generator:
        (uid,) = generator.insert_segments([parts])
        ends = []
        while not ends or not ends[-1].end_of_prompt:
            (response,), _ = generator.next()
            if response.end_of_segment:
                ends.append(response)
                cache, seen = generator.extract_cache([uid])[uid]
                assert seen == whole[: cache[0].offset]
                assert cache[0].offset == {1: 3, 2: 7}[len(ends)]
        assert [r.progress for r in ends] == [(3, 8), (8, 8)]
        assert tokens(run(generator)[uid]) == alone(model, whole, 3)


def test_extracted_caches_live_on_when_the_engine_is_closed(model: Any) -> None:
    generator = BatchGenerator(model, max_tokens=20)
    uids = generator.insert(PROMPTS)
    for _ in range(4):
        generator.next()
    extracted = generator.extract_cache(uids)
    generator.next()
    generator.close()
    generator.close()
    with pytest.raises(InvalidOption, match="closed"):
        generator.next()
    for uid, prompt in zip(uids, PROMPTS, strict=True):
        cache, seen = extracted[uid]
        assert len(seen) == cache[0].offset > len(prompt)
        expected = alone(model, prompt, 12)
        assert seen == [*prompt, *expected[: len(seen) - len(prompt)]]
        follow = alone(model, [1, 2], 4, prompt_cache=cache)
        assert follow == alone(model, [*seen, 1, 2], 4)


def test_caches_can_be_taken_at_any_time(model: Any) -> None:
    with BatchGenerator(
        model, max_tokens=5, completion_batch_size=1, prefill_batch_size=1, prefill_step_size=4
    ) as generator:
        uids = generator.insert([PROMPTS[2], PROMPTS[0]], [5, 5])
        generator.next()
        extracted = generator.extract_cache(uids)
        assert [len(seen) for _, seen in extracted.values()] == [4, 0]
        assert [cache[0].offset for cache, _ in extracted.values()] == [4, 0]
        assert list(generator.remove([uids[0]], return_prompt_caches=True)) == [uids[0]]
        assert generator.remove([uids[1]]) == {}
        assert generator.idle
        with pytest.raises(InvalidOption, match=f"uid {uids[0]}"):
            generator.remove([uids[0]])


def test_an_interrupt_can_be_gone_on_from(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    second = type(model.layers[1])
    original, count = second.__call__, 0

    def interrupted(self: Any, *args: Any) -> mx.array:
        nonlocal count
        count += self is model.layers[1]
        if count in (3, 5, 6):
            count += 1
            raise KeyboardInterrupt
        return original(self, *args)

    with BatchGenerator(model, max_tokens=6) as generator:
        uids = generator.insert(PROMPTS)
        monkeypatch.setattr(second, "__call__", interrupted)
        out: dict[int, list[int]] = {uid: [] for uid in uids}
        raised = 0
        while not generator.idle:
            try:
                for response in generator.next_generated():
                    out[response.uid].append(response.token or 0)
            except KeyboardInterrupt:
                raised += 1
    monkeypatch.undo()
    assert raised >= 2
    for uid, prompt in zip(uids, PROMPTS, strict=True):
        assert out[uid] == alone(model, prompt, 6)


def test_memory_budget_makes_requests_wait(model: Any) -> None:
    """Each of these needs 256 places of 2 layers of 2 heads of 32 float32, twice."""
    need = 256 * 2 * 2 * 2 * 32 * 4
    with BatchGenerator(model, max_tokens=4, memory_budget=2 * need) as generator:
        uids = generator.insert([PROMPTS[0]] * 5)
        most = 0
        out: dict[int, list[int]] = {uid: [] for uid in uids}
        while not generator.idle:
            for response in generator.next()[1]:
                out[response.uid].append(response.token or 0)
            most = max(most, generator.prompt_cache_nbytes)
        assert 0 < most <= 2 * need
        with pytest.raises(InvalidOption, match="memory_budget"):
            generator.insert([PROMPTS[0], [1] * 600])
        assert generator.idle
    assert list(out.values()) == [alone(model, PROMPTS[0], 4)] * 5


def test_R58_each_step_may_run_in_another_thread(model: Any) -> None:
    out: dict[int, list[int]] = {}
    generator = BatchGenerator(model, max_tokens=5)
    uids: list[int] = []

    def step() -> None:
        for response in generator.next_generated():
            out.setdefault(response.uid, []).append(response.token or 0)

    for i in range(9):
        if i < 3:
            uids += generator.insert([PROMPTS[i]], samplers=[make_sampler(temp=1.0, key=i)])
        worker = Thread(target=step)
        worker.start()
        worker.join()
    generator.close()
    for i, uid in enumerate(uids):
        assert out[uid] == alone(model, PROMPTS[i], 5, sampler=make_sampler(temp=1.0, key=i))


def test_given_caches_of_several_kinds_run_side_by_side(model: Any) -> None:
    """A cache class that can't be merged included."""

    class Own(KVCache):
        merge = None

        @property
        def capabilities(self) -> Any:
            from dataclasses import replace

            return replace(super().capabilities, merge=False)

    caches: list[Any] = [[Own(), Own()], make_prompt_cache(model, 16), None, [Own(), Own()]]
    prompts = [*PROMPTS, PROMPTS[0]]
    with BatchGenerator(model, max_tokens=5) as generator:
        uids = generator.insert(prompts, caches=caches)
        out = run(generator)
    for uid, prompt in zip(uids, prompts, strict=True):
        assert tokens(out[uid]) == alone(model, prompt, 5)
    assert [type(c) for c in out[uids[0]][-1].prompt_cache or []] == [Own, Own]


def test_stats_count_what_happens_inside(model: Any) -> None:
    with BatchGenerator(model, max_tokens=3) as generator:
        generator.insert(PROMPTS)
        with generator.stats() as stats:
            started = time.perf_counter()
            run(generator)
            elapsed = time.perf_counter() - started
        assert (stats.prompt_tokens, stats.generation_tokens) == (17, 9)
        assert 0 < stats.prompt_time + stats.generation_time <= elapsed
        assert stats.peak_memory > 0
        generator.insert(PROMPTS[:1])
        with generator.stats(stats) as same:
            run(generator)
        assert same is stats
        assert (stats.prompt_tokens, stats.generation_tokens) == (22, 12)


def test_memory_is_flat_over_many_requests(model: Any) -> None:
    with BatchGenerator(model, max_tokens=2, return_prompt_caches=False) as generator:
        at = []
        for _ in range(4):
            for _ in range(40):
                generator.insert(PROMPTS, logits_processors=[None, [], None])
                run(generator)
            mx.synchronize()
            at.append(mx.get_active_memory())
    assert at[-1] - at[1] < 20_000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"completion_batch_size": 0}, "completion_batch_size=0"),
        ({"prefill_step_size": 0}, "prefill_step_size=0"),
        ({"interleaved_step_size": -1}, "interleaved_step_size=-1"),
        ({"kv_bits": 8, "quantized_kv_start": -1}, "quantized_kv_start=-1"),
        ({"stop_tokens": [[]]}, "stop sequence"),
        ({"max_kv_size": 2}, "max_kv_size"),
    ],
)
def test_wrong_settings_raise_at_once(model: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BatchGenerator(model, **options)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"max_tokens": [1]}, InvalidOption, "max_tokens has 1 entries for 3 prompts"),
        ({"max_tokens": -2}, InvalidOption, "max_tokens=-2"),
        ({"samplers": [None]}, InvalidOption, "samplers has 1"),
        ({"min_tokens": 500}, InvalidOption, "min_tokens=500"),
        ({"logprobs": [0, 1, 2]}, InvalidOption, "logprobs=0"),
        ({"stop_matchers": [1, 2, 3]}, InvalidOption, "stop_matcher"),
        ({"constraints": [1, 2, 3]}, InvalidOption, "constraint"),
        ({"caches": [[KVCache()], None, None]}, InvalidOption, "1 layers"),
        ({"all_tokens": [[1], None, None]}, InvalidOption, "all_tokens has 1"),
        ({"keys": [2**70, None, None]}, ValueError, "key"),
    ],
)
def test_wrong_requests_raise_and_nothing_is_added(
    model: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with BatchGenerator(model) as generator:
        with pytest.raises(error, match=says):
            generator.insert(PROMPTS, **options)
        assert generator.idle
        for prompts in ([[]], ["text"], [[1.5]]):
            with pytest.raises(InvalidPrompt):
                generator.insert(prompts)  # type: ignore[arg-type]
