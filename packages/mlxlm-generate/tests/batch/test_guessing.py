from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import (
    BatchGenerator,
    Drafter,
    DraftLength,
    InvalidOption,
    ModelDrafter,
    NGramDrafter,
    Request,
    generate_step,
)
from mlxlm_generate.batch import guessing
from mlxlm_generate.batch.chosen import Chosen, mixed
from mlxlm_sample import make_sampler


class Always(DraftLength):
    def next(self) -> int:
        return self.longest


@pytest.fixture(autouse=True)
def whatever_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "DraftLength", Always)


def run(generator: BatchGenerator) -> dict[int, list[Any]]:
    answers: dict[int, list[Any]] = {}
    while responses := generator.next_generated():
        for response in responses:
            answers.setdefault(response.uid, []).append(response)
    return answers


@pytest.mark.parametrize("temp", [0.0, 1.0])
def test_R27_a_draft_model_that_draws_as_the_target_is_always_right(
    model: Any, temp: float
) -> None:
    prompts = [[1, 2, 3], [9, 8, 7, 6]]
    samplers = [make_sampler(temp, key=i) for i in range(2)]
    plain, guessed = (
        BatchGenerator(model, draft_model=draft_model) for draft_model in (None, model)
    )
    with plain, guessed:
        plain.insert(prompts, 12, samplers=samplers, logprobs=2)
        guessed.insert(prompts, 12, samplers=samplers, logprobs=2)
        expected, answers = run(plain), run(guessed)
    for uid in expected:
        assert [r.token for r in answers[uid]] == [r.token for r in expected[uid]]
        assert sum(r.from_draft for r in answers[uid]) >= 7
        for one, other in zip(answers[uid], expected[uid], strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert [t for t, _ in one.top_logprobs] == [t for t, _ in other.top_logprobs]


class Faulty(Drafter):
    def extend(self, tokens: Any, /) -> None: ...

    def propose(self, limit: int, draw: Any, /) -> Any:
        raise RuntimeError("no idea")


def test_R31_a_drafter_that_fails_ends_its_row_alone(model: Any) -> None:
    with BatchGenerator(model) as generator:
        bad, good = generator.submit([Request([[1, 2]], 6, drafter=Faulty()), Request([[3, 4]], 6)])
        answers = run(generator)
    assert str(answers[bad][-1].error) == "no idea"
    assert answers[good][-1].finish_reason == "length"
    assert len(answers[good]) == 6


class Wild(Drafter):
    def extend(self, tokens: Any, /) -> None: ...

    def propose(self, limit: int, draw: Any, /) -> Any:
        return [10**6, -5][:limit]


def test_a_stop_token_among_the_guesses_ends_the_answer(model: Any) -> None:
    with BatchGenerator(model) as generator:
        generator.insert([[1, 2, 3]], 12)
        tokens = [r.token for r in run(generator)[0]]
    stop = tokens[5]
    with BatchGenerator(
        model, stop_tokens=[[stop]], drafter=lambda: ModelDrafter(model), num_draft_tokens=4
    ) as generator:
        generator.insert([[1, 2, 3], [7]], 12)
        last = run(generator)[0][-1]
    end = tokens.index(stop) + 1
    assert (last.finish_reason, last.token) == ("stop", stop)
    assert list(last.all_tokens) == [1, 2, 3, *tokens[:end]]
    assert {c.tokens_seen for c in last.prompt_cache} == {3 + end}


def test_guesses_that_are_no_tokens_are_refused(model: Any) -> None:
    answers = []
    for drafter in (None, Wild):
        with BatchGenerator(model, drafter=drafter) as generator:
            generator.insert([[1, 2], [3]], 8)
            answers.append([[r.token for r in row] for row in run(generator).values()])
    assert answers[0] == answers[1]


def guessed(model: Any, request: Callable[[], Request], drafter: Any) -> tuple[list[int], int]:
    """Return the tokens of a request beside a plain one, and how many had been guessed."""
    with BatchGenerator(model, drafter=drafter) as generator:
        uid, _ = generator.submit([request(), Request([[3]], 12)])
        answer = run(generator)[uid]
    assert answer[-1].error is None
    return [r.token for r in answer], sum(r.from_draft for r in answer)


def test_R23_recurrent_rows_are_guessed_together(hybrid_model: Any) -> None:
    request = lambda: Request([[1, 2]], 12)  # noqa: E731
    plain, _ = guessed(hybrid_model, request, None)
    answer, right = guessed(hybrid_model, request, lambda: ModelDrafter(hybrid_model))
    assert answer == plain
    assert right >= 7


class Even:
    """Allows even tokens, and counts how far it looked ahead."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ahead = 0

    def mask(self) -> mx.array:
        return mx.arange(200) % 2 == 0

    def advance(self, token: int) -> None:
        self.tokens.append(token)

    def rollback(self, n: int) -> None:
        self.ahead += n
        del self.tokens[len(self.tokens) - n :]


@pytest.mark.parametrize("kind", ["constraint", "processor", "sampler"])
def test_R27_rows_with_something_of_their_own_are_guessed_too(model: Any, kind: str) -> None:
    constraints: list[Even] = []
    calls: list[int] = []

    def sampler(logprobs: mx.array) -> mx.array:
        calls.append(1)
        return mx.argmin(logprobs, axis=-1)

    def request() -> Request:
        if kind == "constraint":
            constraints.append(Even())
            return Request([[1, 2]], 12, constraint=constraints[-1])
        if kind == "processor":
            bias = 3.0 * (mx.arange(258) % 3 == 0)
            return Request([[1, 2]], 12, logits_processors=[lambda _, x: x + bias])
        return Request([[1, 2]], 12, sampler=sampler)

    plain, _ = guessed(model, request, None)
    calls.clear()
    answer, right = guessed(model, request, lambda: Told([1, 2, *plain]))
    assert answer == plain
    assert right >= 7
    if kind == "constraint":
        assert constraints[-1].ahead >= right
        assert constraints[-1].tokens == plain[:-1]  # the last ends the answer
    assert len(calls) == (12 if kind == "sampler" else 0)  # one for each token: none was in vain


class Told(Drafter):
    """Guesses a text that it knows."""

    def __init__(self, text: list[int]) -> None:
        self.text, self.seen = text, 0

    def extend(self, tokens: Any, /) -> None:
        self.seen += len(tokens)

    def propose(self, limit: int, draw: Any, /) -> Any:
        return self.text[self.seen : self.seen + limit]


@pytest.mark.parametrize("where", ["mask", "advance", "rollback"])
def test_R31_a_constraint_that_fails_ahead_ends_its_row_alone(model: Any, where: str) -> None:
    class Failing(Even):
        def rollback(self, n: int) -> None:
            if where == "rollback":
                raise RuntimeError("back")
            super().rollback(n)

        def advance(self, token: int) -> None:
            super().advance(token)
            if where == "advance" and len(self.tokens) > 4:
                raise RuntimeError("on")

        def mask(self) -> mx.array:
            if where == "mask" and len(self.tokens) > 4:
                raise RuntimeError("no mask")
            return super().mask()

    with BatchGenerator(model, drafter=lambda: Told([2] * 99)) as generator:
        bad, good = generator.submit(
            [Request([[1]], 12, constraint=Failing()), Request([[3, 4]], 12)]
        )
        answers = run(generator)
    assert str(answers[bad][-1].error) in ("back", "on", "no mask")
    assert [r.token for r in answers[good]] == [
        t for t, _ in generate_step([3, 4], model, max_tokens=12)
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt])
def test_an_interrupted_check_goes_on(
    model: Any, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def generator() -> BatchGenerator:
        made = BatchGenerator(model, drafter=lambda: ModelDrafter(model))
        made.insert([[1, 2, 3], [9]], 12)
        return made

    with generator() as whole:
        expected = {uid: [r.token for r in row] for uid, row in run(whole).items()}
    read, calls = Chosen.read, [0]

    def failing(self: Chosen) -> Any:
        calls[0] += 1
        if calls[0] == 4:
            raise error
        return read(self)

    monkeypatch.setattr(Chosen, "read", failing)
    got: dict[int, list[Any]] = {uid: [] for uid in expected}
    with generator() as broken:
        while not broken.idle:
            try:
                _, responses = broken.next()
            except error:
                continue
            for response in responses:
                got[response.uid].append(response.token)
    assert calls[0] > 4
    assert got == expected


def twin(model: Any) -> Any:
    """Return another model of the same weights."""
    mx.random.seed(7)
    made = type(model)()
    mx.eval(made.parameters())
    return made


def test_R27_a_draft_model_decodes_for_all_rows_at_once(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, shapes = twin(model), []
    original = type(model).__call__

    def counted(self: Any, tokens: mx.array, **options: Any) -> mx.array:
        if self is draft:
            shapes.append(tokens.shape)
        return original(self, tokens, **options)

    monkeypatch.setattr(type(model), "__call__", counted)
    prompts = [[1, 2, 3], [9, 8, 7, 6], [5], [4, 4]]
    with BatchGenerator(model, draft_model=draft, num_draft_tokens=3) as generator:
        generator.insert(prompts, 14)
        answers = run(generator)
    steps = [shape for shape in shapes if shape[0] == 4]
    assert len(steps) >= 6
    alone = [shape for shape in shapes if shape[0] == 1 and shape != (1, 1)]
    assert len(alone) == 2  # prompts of more than two tokens
    for uid, prompt in enumerate(prompts):
        expected = [t for t, _ in generate_step(prompt, model, max_tokens=14)]
        assert [r.token for r in answers[uid]] == expected


def test_a_long_prompt_is_fed_to_the_draft_in_chunks(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, fed = twin(model), []
    original = type(model).__call__

    def counted(self: Any, tokens: mx.array, **options: Any) -> mx.array:
        if self is draft:
            fed.append(tokens.shape[1])
        return original(self, tokens, **options)

    monkeypatch.setattr(type(model), "__call__", counted)
    with BatchGenerator(model, draft_model=draft, interleaved_step_size=16) as generator:
        generator.insert([list(range(1, 60))], 20)
        (answer,) = run(generator).values()
    assert len(answer) == 20
    assert max(fed) == 16
    assert answer[-1].accepted > 5


@pytest.mark.parametrize("shape", [(2, 1), (1, 3)])
def test_R31_a_draft_model_that_fails_ends_the_rows_that_have_it(
    model: Any, shape: tuple[int, int]
) -> None:
    """As it decodes for both, or as it reads a prompt."""

    class Broken(type(model)):  # type: ignore[misc]
        def __call__(self, tokens: mx.array, **options: Any) -> mx.array:
            if tokens.shape == shape:
                raise RuntimeError("no draft")
            return super().__call__(tokens, **options)

    with BatchGenerator(model) as generator:
        broken = Broken()
        drafters = [ModelDrafter(broken), None, ModelDrafter(broken)]
        uids = generator.insert([[1, 2, 3, 4], [3, 4], [5, 6, 7, 8]], 12, drafters=drafters)
        answers = run(generator)
    assert [answers[uid][-1].finish_reason for uid in uids] == ["error", "length", "error"]
    assert "no draft" in str(answers[uids[0]][-1].error)


@pytest.mark.parametrize("how", ["drafters", "drafter", "draft_model"])
def test_R27_what_was_guessed_is_counted(model: Any, how: str) -> None:
    options: dict[str, Any] = {}
    if how == "drafter":
        options = {"drafter": lambda: ModelDrafter(model)}
    if how == "draft_model":
        options = {"draft_model": model}
    drafters = [ModelDrafter(model), None] if how == "drafters" else None
    with BatchGenerator(model, **options) as generator, generator.stats() as stats:
        uids = generator.insert([[1, 2], [3, 4]], 12, drafters=drafters)
        answers = run(generator)
    for uid in uids:
        last = answers[uid][-1]
        assert last.accepted == sum(r.from_draft for r in answers[uid])
        assert last.drafted >= last.accepted
        assert [r.accepted for r in answers[uid]] == sorted(r.accepted for r in answers[uid])
    assert answers[uids[0]][-1].accepted >= 7
    assert (answers[uids[1]][-1].drafted > 0) == (how != "drafters")
    assert stats.drafted == sum(answers[uid][-1].drafted for uid in uids)
    assert stats.accepted == sum(answers[uid][-1].accepted for uid in uids)


def test_only_one_guesses(model: Any) -> None:
    with pytest.raises(InvalidOption, match="draft_model"):
        BatchGenerator(model, drafter=NGramDrafter, draft_model=model)
    with BatchGenerator(model) as generator:
        with pytest.raises(InvalidOption, match="drafters has 1"):
            generator.insert([[1], [2]], drafters=[None])
        with pytest.raises(InvalidOption, match="no Drafter"):
            generator.insert([[1]], drafters=[NGramDrafter])  # type: ignore[list-item]


def test_number_of_guesses_out_of_range(model: Any) -> None:
    with pytest.raises(InvalidOption, match="num_draft_tokens=0"):
        BatchGenerator(model, num_draft_tokens=0)


def test_what_was_chosen_at_places_of_each_row() -> None:
    places = [
        Chosen(mx.array([1, 2]), full={0: mx.array([0.1])}),
        Chosen(mx.array([3, 4]), full={0: mx.array([0.2])}),
    ]
    chosen = mixed(places, [1, 0])
    assert chosen.tokens.tolist() == [3, 2]
    assert chosen.full[0].tolist() == pytest.approx([0.2])
