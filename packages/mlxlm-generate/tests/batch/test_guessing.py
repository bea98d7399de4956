from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import (
    BatchGenerator,
    Drafter,
    DraftLength,
    InvalidOption,
    ModelDrafter,
    Request,
)
from mlxlm_generate.batch import guessing
from mlxlm_generate.batch.choose import Chosen
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
        BatchGenerator(model, drafter=drafter) for drafter in (None, lambda: ModelDrafter(model))
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


def test_R23_recurrent_rows_decode_plainly(hybrid_model: Any) -> None:
    with BatchGenerator(hybrid_model, drafter=lambda: ModelDrafter(hybrid_model)) as generator:
        generator.insert([[1, 2], [3]], 8)
        answers = run(generator)
    assert [len(row) for row in answers.values()] == [8, 8]
    assert not any(r.from_draft for row in answers.values() for r in row)


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


def test_number_of_guesses_out_of_range(model: Any) -> None:
    with pytest.raises(InvalidOption, match="num_draft_tokens=0"):
        BatchGenerator(model, num_draft_tokens=0)


def test_what_was_chosen_at_places_of_each_row() -> None:
    places = [
        Chosen(mx.array([1, 2]), full={0: mx.array([0.1])}),
        Chosen(mx.array([3, 4]), full={0: mx.array([0.2])}),
    ]
    chosen = guessing.mixed(places, [1, 0])
    assert chosen.tokens.tolist() == [3, 2]
    assert chosen.full[0].tolist() == pytest.approx([0.2])
