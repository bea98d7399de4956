from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate.chooser import Chooser
from mlxlm_generate.logprobs import log_softmax
from mlxlm_sample import make_logits_processors, make_sampler

PROMPT = mx.array([1, 2], dtype=mx.uint32)
LOGITS = mx.array([[0.0, 3.0, 1.0]])


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []

    def counting(logits: mx.array) -> mx.array:
        calls.append(1)
        return log_softmax(logits)

    monkeypatch.setattr("mlxlm_generate.chooser.log_softmax", counting)
    return calls


@pytest.mark.parametrize("sampler", [None, make_sampler(temp=0.0)])
def test_R60_greedy_never_computes_log_probabilities(sampler: Any, counted: list[int]) -> None:
    choice = Chooser(sampler, (), None, PROMPT)(LOGITS)
    assert choice.token.tolist() == [1]
    assert choice.observed == ()
    assert counted == []


def test_log_probabilities_are_computed_once(counted: list[int]) -> None:
    choose = Chooser(make_sampler(temp=1.0, key=1), (), lambda lp, token: (lp,), PROMPT)
    (logprobs,) = choose(LOGITS).observed
    assert mx.allclose(mx.exp(logprobs).sum(), mx.array(1.0))
    assert counted == [1]


def test_history_grows_only_for_processors() -> None:
    without = Chooser(None, (), None, PROMPT)
    without(LOGITS)
    assert without.pending() == ()
    choose = Chooser(None, [lambda tokens, logits: logits], None, PROMPT)
    choose(LOGITS)
    choose(LOGITS)
    (history,) = choose.pending()
    assert history.tolist() == [1, 2, 1, 1]


def test_processors_run_in_order() -> None:
    double, add = (lambda t, x: x * 2), (lambda t, x: x + mx.array([[7.0, 0.0, 0.0]]))
    assert Chooser(None, [double, add], None, PROMPT)(LOGITS).token.item() == 0
    assert Chooser(None, [add, double], None, PROMPT)(LOGITS).token.item() == 0
    assert Chooser(None, [double], None, PROMPT)(LOGITS).token.item() == 1


def test_a_foreseen_token_is_the_one_chosen_then() -> None:
    logits = mx.random.normal((1, 40), key=mx.random.key(3))
    processors = make_logits_processors(repetition_penalty=1.5)
    choose = Chooser(make_sampler(temp=1.0, key=1), processors, None, PROMPT)
    mark = choose.mark()
    foreseen = [choose.foresee(logits).item() for _ in range(4)]
    choose.rewind(mark)
    assert [choose(logits).token.item() for _ in range(4)] == foreseen


def test_what_is_somebody_elses_is_not_asked_ahead() -> None:
    def never(*given: mx.array) -> mx.array:
        raise AssertionError

    assert not Chooser(never, (), None, PROMPT).rewinds
    choose = Chooser(None, [never], None, PROMPT)
    assert not choose.rewinds
    assert choose.foresee(LOGITS).tolist() == [1]
