from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_sample import SamplingOptionError, categorical_sampling

PROBS = [0.5, 0.25, 0.15, 0.07, 0.03]


def chi_square(counts: Any, expected: Any) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temp", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("source", ["state", "key", "keys"])
def test_draws_follow_the_tempered_distribution(source: str, temp: float) -> None:
    count = 20_000
    logits = mx.broadcast_to(mx.log(mx.array(PROBS)), (count, len(PROBS)))
    mx.random.seed(1)
    key = mx.random.key(1)
    keys = {"state": None, "key": key, "keys": mx.random.split(key, count)}[source]
    drawn = np.array(categorical_sampling(logits, temp, key=keys))
    p = np.array(PROBS) ** (1 / temp)
    # 0.999 quantile of chi-square with four degrees of freedom; the seed is fixed.
    assert chi_square(np.bincount(drawn, minlength=5), count * p / p.sum()) < 18.47


def test_R28_a_rows_token_depends_on_its_own_key_alone() -> None:
    logits = mx.random.normal((7, 101), key=mx.random.key(0))
    keys = mx.random.split(mx.random.key(1), 7)
    together = categorical_sampling(logits, 1.0, key=keys).tolist()
    alone = [
        categorical_sampling(logits[i : i + 1], 1.0, key=keys[i : i + 1]).item() for i in range(7)
    ]
    plain = [categorical_sampling(logits[i : i + 1], 1.0, key=keys[i]).item() for i in range(7)]
    pair = categorical_sampling(logits[2:4], 1.0, key=keys[2:4]).tolist()
    assert together == alone == plain
    assert pair == together[2:4]


def test_one_key_over_a_batch_draws_rows_apart() -> None:
    logits = mx.zeros((50, 1000))
    drawn = np.array(categorical_sampling(logits, 1.0, key=mx.random.key(3)))
    assert len(set(drawn.tolist())) > 40


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_removed_token_is_never_drawn(keyed: bool, dtype: mx.Dtype) -> None:
    logits = mx.full((500, 300), -mx.inf, dtype=dtype)
    logits[:, 299] = -20.0
    mx.random.seed(0)
    key = mx.random.split(mx.random.key(0), 500) if keyed else None
    assert set(np.array(categorical_sampling(logits, 5.0, key=key)).tolist()) == {299}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("temp", [1e-3, 1e-30, 1e-300])
def test_a_tiny_temp_is_the_argmax(temp: float, keyed: bool) -> None:
    logits = mx.random.normal((20, 50), key=mx.random.key(9)) - 30
    key = mx.random.key(0) if keyed else None
    drawn = categorical_sampling(logits, temp, key=key)
    assert mx.array_equal(drawn, mx.argmax(logits, axis=-1))


@pytest.mark.parametrize("keyed", [True, False])
def test_a_row_without_tokens_gives_an_id_of_the_vocabulary(keyed: bool) -> None:
    key = mx.random.key(0) if keyed else None
    drawn = categorical_sampling(mx.full((3, 10), -mx.inf), 1.0, key=key)
    assert all(0 <= token < 10 for token in np.array(drawn))


@pytest.mark.parametrize("temp", [0, -1.0, float("nan"), float("inf")])
def test_a_draw_needs_a_positive_temp(temp: float) -> None:
    with pytest.raises(SamplingOptionError, match="`temp`"):
        categorical_sampling(mx.zeros((1, 4)), temp)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (4,)])
def test_a_key_that_does_not_fit_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"`key` of shape"):
        categorical_sampling(mx.zeros((2, 4)), 1.0, key=mx.zeros(shape, dtype=mx.uint32))
