import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_sample import KeyStream, SamplingOptionError, SamplingWarning, make_sampler

LogprobsOf = Callable[..., mx.array]
BUSY: dict[str, Any] = {
    "temp": 0.9,
    "top_p": 0.95,
    "min_p": 0.01,
    "top_k": 12,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.05,
    "xtc_special_tokens": [3],
}


def seeded(
    golden: dict[str, Any], options: dict[str, Any], logprobs: mx.array, count: int
) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        sampler = make_sampler(**options)
    mx.random.seed(golden["seed"])
    return [sampler(logprobs).tolist() for _ in range(count)]


@pytest.mark.usefixtures("same_draws")
def test_one_seed_draws_what_mlx_lm_draws(
    golden: dict[str, Any], golden_logprobs: mx.array
) -> None:
    for case in golden["samplers"]:
        count = len(case["tokens"])
        assert seeded(golden, case["options"], golden_logprobs[:1], count) == case["tokens"], case


@pytest.mark.usefixtures("same_draws")
def test_one_seed_draws_what_mlx_lm_draws_for_a_batch(
    golden: dict[str, Any], golden_logprobs: mx.array
) -> None:
    """Without XTC: mlx-lm tosses one coin for all rows, we toss one for each."""
    for case in golden["batch_samplers"]:
        count = len(case["tokens"])
        assert seeded(golden, case["options"], golden_logprobs, count) == case["tokens"], case


def test_the_default_is_greedy_and_warns_of_nothing(golden_logprobs: mx.array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = make_sampler()
    assert mx.array_equal(sampler(golden_logprobs), mx.argmax(golden_logprobs, axis=-1))


def test_filters_run_in_the_order_top_p_min_p_xtc_top_k(logprobs_of: LogprobsOf) -> None:
    """Top-k comes after XTC: it keeps one of what XTC left, not the first that XTC removes."""
    logprobs = logprobs_of([0.4, 0.3, 0.2, 0.06, 0.04])
    sampler = make_sampler(
        1.0, top_k=1, xtc_probability=1.0, xtc_threshold=0.1, xtc_special_tokens=[]
    )
    assert sampler(logprobs).item() == 2
    # XTC sees what top-p left, renormalized: 0.19 of the whole is then above 0.2.
    logprobs = logprobs_of([0.4, 0.3, 0.19, 0.11])
    options: dict[str, Any] = {
        "xtc_probability": 1.0,
        "xtc_threshold": 0.2,
        "xtc_special_tokens": [],
    }
    assert make_sampler(1.0, top_p=0.85, **options)(logprobs).item() == 2
    # Min-p looks at the first token that XTC is yet to remove: 0.19 < 0.5 * 0.4.
    sampler = make_sampler(1.0, min_p=0.5, **options)
    assert sampler(logprobs).item() == 1


def test_R04_greedy_warns_once_naming_what_it_ignores(golden_logprobs: mx.array) -> None:
    with pytest.warns(SamplingWarning) as caught:
        sampler = make_sampler(temp=0, top_k=50, xtc_probability=0.2, min_p=0.1)
    assert len(caught) == 1
    message = str(caught[0].message)
    for text in ("temp=0", "top_k=50", "xtc_probability=0.2", "min_p=0.1"):
        assert text in message
    assert "top_p" not in message
    assert caught[0].filename == __file__
    assert mx.array_equal(sampler(golden_logprobs), mx.argmax(golden_logprobs, axis=-1))


def test_R04_settings_that_are_off_are_not_ignored_ones() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_sampler(temp=0, top_p=1.0, top_k=0, xtc_threshold=0.1, xtc_special_tokens=[5])
        make_sampler(temp=0, top_p=0.0, key=7)


def test_a_setting_whose_filter_is_off_is_warned_of() -> None:
    with pytest.warns(SamplingWarning, match=r"no effect .*min_tokens_to_keep=3, xtc_threshold"):
        make_sampler(temp=1, min_tokens_to_keep=3, xtc_threshold=0.2)


def test_R06_xtc_without_special_tokens_warns() -> None:
    with pytest.warns(SamplingWarning, match="newlines and EOS"):
        make_sampler(temp=1, xtc_probability=0.5)


@pytest.mark.parametrize("special", [[], [1, 2], ()])
def test_R06_a_given_list_does_not_warn(special: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_sampler(temp=1, xtc_probability=0.5, xtc_special_tokens=special)


@pytest.mark.parametrize("top_p", [-0.5, 1.01])
@pytest.mark.parametrize("temp", [0.0, 1.0])
def test_R05_top_p_out_of_range_is_an_error(top_p: float, temp: float) -> None:
    with pytest.raises(SamplingOptionError, match="`top_p`"):
        make_sampler(temp, top_p=top_p)


def test_top_k_0_with_others_is_off(golden_logprobs: mx.array) -> None:
    sampler = make_sampler(temp=1, top_k=0, top_p=0.9, min_p=0.01, key=1)
    assert 0 <= int(sampler(golden_logprobs)[0].item()) < 48  # type: ignore[arg-type]


def test_top_k_beyond_the_vocabulary_is_an_error(golden_logprobs: mx.array) -> None:
    with pytest.raises(SamplingOptionError, match=r"integer in the \(0, 48\) interval"):
        make_sampler(temp=1, top_k=48)(golden_logprobs)


def test_an_error_leaves_the_random_state_usable(golden_logprobs: mx.array) -> None:
    """In mlx-lm an error inside a compiled filter breaks mx.random.state for good."""
    with pytest.raises(SamplingOptionError):
        make_sampler(temp=1, xtc_probability=1.0, xtc_special_tokens=[], top_k=99)(golden_logprobs)
    assert make_sampler(temp=1)(golden_logprobs).shape == (3,)


def test_R28_a_seeded_request_draws_the_same_alone_or_in_company() -> None:
    rows, steps = 5, 12
    logprobs = mx.random.normal((steps, rows, 90), key=mx.random.key(2)) * 2
    streams = [KeyStream(seed) for seed in range(rows)]
    sampler = make_sampler(**BUSY)
    together = [
        sampler(logprobs[i], key=mx.stack([s.at(i) for s in streams])).tolist()
        for i in range(steps)
    ]
    for row in range(rows):
        alone = make_sampler(**BUSY, key=row)
        drawn = [alone(logprobs[i, row : row + 1]).item() for i in range(steps)]
        assert drawn == [tokens[row] for tokens in together]  # type: ignore[index]


def test_R28_a_key_leaves_the_global_state_alone(golden_logprobs: mx.array) -> None:
    mx.random.seed(4)
    expected = mx.random.uniform(shape=(3,)).tolist()
    mx.random.seed(4)
    mx.eval(make_sampler(**BUSY, key=1)(golden_logprobs))
    assert mx.random.uniform(shape=(3,)).tolist() == expected


def test_a_seed_repeats_and_another_differs(golden_logprobs: mx.array) -> None:
    def drawn(key: int | mx.array) -> list[Any]:
        sampler = make_sampler(temp=2.0, key=key)
        return [sampler(golden_logprobs).tolist() for _ in range(10)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(mx.random.key(1)) == drawn(mx.random.key(1))
    assert len({str(tokens) for tokens in drawn(1)}) > 5


@pytest.mark.parametrize("key", [None, 6])
def test_draws_follow_the_filtered_distribution(key: int | None, logprobs_of: LogprobsOf) -> None:
    """Chi-square against the closed form: top-p drops the last, XTC half of the time the first."""
    count = 4000
    logprobs = mx.broadcast_to(logprobs_of([0.4, 0.35, 0.15, 0.1]), (count, 4))
    options = {"top_p": 0.85, "xtc_probability": 0.5, "xtc_threshold": 0.2}
    sampler = make_sampler(1.0, **options, xtc_special_tokens=[], key=key)  # type: ignore[arg-type]
    mx.random.seed(8)
    counts = Counter(np.array(sampler(logprobs)).tolist())
    all_three = np.array([0.4, 0.35, 0.15]) / 0.9
    without_first = np.array([0, 0.35, 0.15]) / 0.5
    expected = count * (all_three + without_first) / 2
    observed = np.array([counts[i] for i in range(3)])
    assert counts[3] == 0
    # 0.999 quantile of chi-square with two degrees of freedom.
    assert ((observed - expected) ** 2 / expected).sum() < 13.82


def test_the_xtc_coin_says_nothing_about_the_draw(logprobs_of: LogprobsOf) -> None:
    count = 4000
    logprobs = mx.broadcast_to(logprobs_of([0.6, 0.4]), (count, 2))
    sampler = make_sampler(1.0, xtc_probability=0.5, xtc_special_tokens=[])
    drawn = np.array(sampler(logprobs, key=mx.random.split(mx.random.key(0), count)))
    first, expected = (drawn == 0).sum(), 0.3 * count
    # 0.999 quantile of chi-square with one degree of freedom.
    assert (first - expected) ** 2 / expected / 0.7 < 10.83


def test_distribution_is_what_a_call_draws_from(golden_logprobs: mx.array) -> None:
    sampler = make_sampler(temp=0.5, top_k=4)
    found = np.exp(np.array(sampler.distribution(golden_logprobs), dtype=np.float64))
    p = np.exp(np.array(golden_logprobs, dtype=np.float64))
    p[p < np.sort(p, axis=-1)[:, -4:-3]] = 0
    p = p**2 / (p**2).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, p, rtol=1e-5)
    greedy = np.exp(np.array(make_sampler().distribution(golden_logprobs)))
    np.testing.assert_array_equal(greedy, np.eye(48)[np.argmax(p, axis=-1)])


def test_R58_samplers_made_in_one_thread_work_in_another(golden_logprobs: mx.array) -> None:
    made = [make_sampler(**BUSY), make_sampler(temp=1), make_sampler(**BUSY, key=3)]
    drawn: list[list[Any]] = [[], [], []]
    row = golden_logprobs[:1]
    mx.eval(row)

    def work(number: int) -> None:
        with mx.stream(mx.new_stream(mx.default_device())):
            mx.random.seed(17)
            drawn[number] = [[s(row).tolist() for s in made[:2]] for _ in range(8)]

    for number in range(2):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    mx.random.seed(17)
    here = [[s(row).tolist() for s in made[:2]] for _ in range(8)]
    assert drawn[0] == drawn[1] == here

    def keyed() -> None:
        drawn[2] = [made[2](row).item() for _ in range(8)]

    thread = threading.Thread(target=keyed)
    thread.start()
    thread.join()
    again = make_sampler(**BUSY, key=3)
    assert drawn[2] == [again(row).item() for _ in range(8)]


def test_samplers_at_once_in_several_threads_keep_their_own_draws(
    golden_logprobs: mx.array,
) -> None:
    row = golden_logprobs[:1]
    mx.eval(row)

    def drawn(seed: int) -> list[Any]:
        sampler = make_sampler(**BUSY, key=seed)
        return [sampler(row).item() for _ in range(30)]

    found: dict[int, list[Any]] = {}
    threads = [
        threading.Thread(target=lambda s=seed: found.__setitem__(s, drawn(s))) for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: drawn(seed) for seed in range(4)}


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_log_probs_draw_as_their_float32_values(
    dtype: mx.Dtype, golden_logprobs: mx.array
) -> None:
    half = golden_logprobs.astype(dtype)
    one, other = make_sampler(**BUSY, key=2), make_sampler(**BUSY, key=2)
    assert [one(half).tolist() for _ in range(20)] == [
        other(half.astype(mx.float32)).tolist() for _ in range(20)
    ]


@pytest.mark.parametrize("key", [None, 4])
@pytest.mark.parametrize(
    "options",
    [{"temp": 0.0}, {"temp": 0.9}, {"temp": 1.0, "xtc_probability": 0.5, "xtc_special_tokens": []}],
)
@pytest.mark.parametrize("kept", [0, 2, 3])
def test_draws_in_turn_are_those_of_single_calls_and_can_be_taken_back(
    key: int | None, options: dict[str, Any], kept: int
) -> None:
    logprobs = mx.random.normal((5, 50), key=mx.random.key(1))

    def alone(sampler: Any, rows: range) -> list[Any]:
        return [sampler(logprobs[i : i + 1]).item() for i in rows]

    mx.random.seed(8)
    expected = alone(make_sampler(**options, key=key), range(5))
    mx.random.seed(8)
    sampler = make_sampler(**options, key=key)
    start = sampler.mark()
    drawn, marks = sampler.in_turn(logprobs)
    assert drawn.tolist() == expected
    sampler.rewind(marks[kept - 1] if kept else start)
    assert alone(sampler, range(kept, 5)) == expected[kept:]
