from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate.chooser import Chooser
from mlxlm_generate.forward import Forward
from mlxlm_generate.launch import Launch
from mlxlm_generate.speculate.check import check, matching
from mlxlm_sample import make_logits_processors, make_sampler

LOGITS = 3 * mx.random.normal((4, 20), key=mx.random.key(2))


def launch(model: Any, temp: float, penalty: float | None, *, own: bool) -> Launch:
    made = make_sampler(temp, key=5)
    sampler: Any = (lambda logprobs: made(logprobs)) if own else made
    processors: Any = make_logits_processors(repetition_penalty=penalty)
    choose = Chooser(sampler, processors, lambda lp, token: (lp[0, token],), mx.array([1, 2]))
    return Launch(Forward(model, []), choose, observe_lazily=False)


@pytest.mark.parametrize("temp", [0.0, 1.0])
@pytest.mark.parametrize("penalty", [None, 1.4])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("right", [0, 1, 3])
@pytest.mark.parametrize("as_array", [False, True])
def test_R26_choices_are_those_without_guesses(
    model: Any, temp: float, penalty: float | None, own: bool, right: int, as_array: bool
) -> None:
    plain = launch(model, temp, penalty, own=own).choose
    choices = [plain(LOGITS[i : i + 1]) for i in range(4)]
    expected: list[Any] = [choice.token.item() for choice in choices]
    guesses = [token if i < right else (token + 1) % 20 for i, token in enumerate(expected[:3])]

    speculating = launch(model, temp, penalty, own=own)
    checked = check(speculating, LOGITS, mx.array(guesses) if as_array else guesses)
    assert checked.right == expected[:right]
    assert checked.following.token.item() == expected[right]
    seen = [*checked.observed, checked.following.observed]
    for (observed,), choice in zip(seen, choices, strict=False):
        assert mx.allclose(observed, choice.observed[0], atol=1e-5)
    # What was refused leaves no trace in what is chosen next.
    for i in range(right + 1, 4):
        assert speculating.choose(LOGITS[i : i + 1]).token.item() == expected[i]


def test_matching() -> None:
    assert [matching([1, 2], t) for t in ([1, 2, 3], [1, 3, 3], [2, 2, 3], [])] == [2, 1, 0, 0]
