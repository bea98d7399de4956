"""R26: what is drawn with guesses has the distribution of what is drawn without.

Expected counts come of the model's own probabilities, worked out in full, so that no
test has to trust the sampler. `SPECULATION_DRAWS` asks for more draws than CI's.
"""

import os
from collections import Counter
from itertools import product
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import Cache
from mlxlm_generate import BatchGenerator, ModelDrafter, NGramDrafter, stream_generate
from mlxlm_generate.batch import guessing
from mlxlm_sample import make_logits_processors, make_sampler

DRAWS = int(os.environ.get("SPECULATION_DRAWS", "1000"))
VOCAB, RUN = 4, 3


class Chain:
    """Independent runs of three tokens: in a run, each depends on the one before it."""

    layers = (None,)

    def __init__(self, seed: int) -> None:
        self.table = mx.random.normal((VOCAB, VOCAB), key=mx.random.key(seed))
        mx.eval(self.table)

    def __call__(self, tokens: mx.array, cache: list[Cache]) -> mx.array:
        places = mx.arange(tokens.shape[1]) + mx.array(cache[0].offset).reshape(-1, 1)
        dummy = mx.zeros((tokens.shape[0], 1, tokens.shape[1], 1))
        cache[0].update_and_fetch(dummy, dummy)
        return self.table[mx.where(places % RUN == 0, 0, tokens)]

    def runs(self, temp: float) -> dict[tuple[int, ...], float]:
        """The probability of each run."""
        p: Any = mx.softmax(self.table / temp, axis=-1).tolist()
        return {(a, b, c): p[0][a] * p[a][b] * p[b][c] for a, b, c in product(range(4), repeat=3)}


def deviations(tokens: list[int], expected: dict[tuple[int, ...], float]) -> float:
    """Return how far chi-square is above its mean, in its standard deviations."""
    runs = zip(*(tokens[i::RUN] for i in range(RUN)), strict=True)
    counts, total = Counter(runs), len(tokens) // RUN
    statistic = sum((counts[run] - total * p) ** 2 / (total * p) for run, p in expected.items())
    degrees = len(expected) - 1
    return float((statistic - degrees) / (2 * degrees) ** 0.5)


class Ids:
    eos_token_ids = ()

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Any) -> str:
        return ""


@pytest.mark.parametrize("guesser", ["ngrams", "draft", "same"])
@pytest.mark.parametrize("own", [False, True])
def test_R26_chi_square(always: Any, guesser: str, own: bool) -> None:
    target, temp = Chain(1), 0.8
    made = make_sampler(temp, key=17)
    sampler: Any = (lambda logprobs: made(logprobs)) if own else made
    guesses: dict[str, Any] = {
        "ngrams": {"drafter": NGramDrafter(2, 1)},
        "draft": {"draft_model": Chain(2)},
        "same": {"draft_model": Chain(1)},
    }
    tokens, last = [], None
    for last in stream_generate(
        target, Ids(), [2], DRAWS * RUN, sampler=sampler,
        num_draft_tokens=always(3), **guesses[guesser],
    ):  # fmt: skip
        assert last.token is not None
        tokens.append(last.token)
    assert last is not None
    assert 0 < last.accepted <= last.drafted
    assert (last.accepted == last.drafted) == (guesser == "same" and not own)
    assert deviations(tokens, target.runs(temp)) < 4
    # The measure has teeth: the draft's own distribution is far off.
    assert deviations(tokens, Chain(2).runs(temp)) > 50


def test_R26_chi_square_with_processors(always: Any) -> None:
    target, temp = Chain(1), 1.0
    bias: Any = make_logits_processors({0: 0.7, 3: -0.4})
    steps = stream_generate(
        target, Ids(), [2], DRAWS * RUN, sampler=make_sampler(temp, key=5),
        logits_processors=bias, draft_model=Chain(2), num_draft_tokens=always(2),
    )  # fmt: skip
    tokens = [response.token for response in steps if response.token is not None]
    expected = Chain(1)
    expected.table = target.table + mx.array([0.7, 0.0, 0.0, -0.4])
    assert deviations(tokens, expected.runs(temp)) < 4
    assert deviations(tokens, target.runs(temp)) > 50


@pytest.mark.parametrize("guesser", [lambda: NGramDrafter(2, 1), lambda: ModelDrafter(Chain(2))])
def test_R26_R27_chi_square_through_the_batch(
    always: Any, guesser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guessing, "DraftLength", always)
    target, temp, rows = Chain(1), 0.8, 4
    count = DRAWS // rows * RUN
    with BatchGenerator(target, drafter=guesser, num_draft_tokens=3) as generator:
        samplers = [make_sampler(temp, key=seed) for seed in range(rows)]
        uids = generator.insert([[2]] * rows, count, samplers=samplers)
        answers: dict[int, list[int]] = {uid: [] for uid in uids}
        accepted = 0
        while responses := generator.next_generated():
            for response in responses:
                assert response.token is not None
                answers[response.uid].append(response.token)
                accepted += response.from_draft
    tokens = [token for answer in answers.values() for token in answer]
    assert len(tokens) == rows * count
    assert accepted > len(tokens) // 10
    assert deviations(tokens, target.runs(temp)) < 4
    assert deviations(tokens, Chain(2).runs(temp)) > 50
