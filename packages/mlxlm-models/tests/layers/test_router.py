from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.layers.router import RouterSpec, WideGate


def chosen(spec: RouterSpec, logits: Any, correction: Any = None) -> dict[int, float]:
    """Return the weight of each expert chosen for one token."""
    given = None if correction is None else mx.array(correction)
    indices, weights = spec.choose(mx.array([logits]), given)
    return dict(zip(indices[0].tolist(), weights[0].tolist(), strict=True))


def softmax(x: Any) -> Any:
    shares = np.exp(np.array(x, np.float64))
    return shares / shares.sum()


LOGITS = [0.5, 2.0, -1.0, 1.0]


def test_softmax_shares_are_those_of_all_or_of_the_chosen() -> None:
    shares = softmax(LOGITS)
    plain = RouterSpec(experts=4, top_k=2, normalize=False)
    assert chosen(plain, LOGITS) == pytest.approx({1: shares[1], 3: shares[3]}, abs=1e-6)
    both = shares[1] + shares[3]
    normal = RouterSpec(experts=4, top_k=2, scaling=2.0)
    expected = {1: 2 * shares[1] / both, 3: 2 * shares[3] / both}
    assert chosen(normal, LOGITS) == pytest.approx(expected, abs=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(-5, 5), min_size=4, max_size=4, unique=True))
def test_the_short_way_to_normalised_softmax_is_the_long_one(logits: list[int]) -> None:
    short = RouterSpec(experts=4, top_k=2)
    long = RouterSpec(experts=4, top_k=2, epsilon=1e-20)
    assert chosen(short, logits) == pytest.approx(chosen(long, logits), abs=1e-5)


def test_a_correction_changes_the_choice_but_not_the_weights() -> None:
    spec = RouterSpec(experts=4, top_k=2, scoring="sigmoid", normalize=False, correction="gate")
    scores = 1 / (1 + np.exp(-np.array(LOGITS)))
    result = chosen(spec, LOGITS, [0.0, 0.0, 5.0, 0.0])
    assert result == pytest.approx({1: scores[1], 2: scores[2]}, abs=1e-6)


def test_only_the_best_groups_are_candidates() -> None:
    logits = [3.0, -3.0, 1.0, 1.5, 2.0, -9.0]
    by_best = RouterSpec(experts=6, top_k=2, groups=3, kept_groups=1, group_score="max")
    assert chosen(by_best, logits).keys() == {0, 1}
    by_two = RouterSpec(experts=6, top_k=2, scoring="sigmoid", groups=3, kept_groups=1)
    assert chosen(by_two, logits).keys() == {2, 3}
    both = RouterSpec(experts=6, top_k=2, scoring="sigmoid", groups=3, kept_groups=2)
    assert chosen(both, logits).keys() == {0, 3}
    every = RouterSpec(experts=6, top_k=2, scoring="sigmoid", groups=3, kept_groups=3)
    assert chosen(every, logits).keys() == {0, 4}


def test_a_group_with_negative_corrections_is_still_left_out() -> None:
    spec = RouterSpec(experts=4, top_k=2, scoring="sigmoid", groups=2, kept_groups=1)
    assert chosen(spec, LOGITS, [-9.0, -9.0, -9.5, -9.5]).keys() == {0, 1}


def test_a_single_expert_keeps_its_own_score() -> None:
    spec = RouterSpec(experts=4, top_k=1, scoring="sigmoid")
    assert chosen(spec, LOGITS) == pytest.approx({1: 1 / (1 + np.exp(-2.0))}, abs=1e-6)


def test_a_wide_gate_computes_in_float32(parameters: Any) -> None:
    gate = WideGate(8, RouterSpec(experts=4, top_k=2, correction="gate", bias=True, wide=True))
    shapes = {name: value.shape for name, value in parameters(gate).items()}
    assert shapes == {"weight": (4, 8), "bias": (4,), "e_score_correction_bias": (4,)}
    gate.set_dtype(mx.bfloat16)
    assert gate(mx.ones((1, 3, 8), mx.bfloat16)).dtype == mx.float32
    assert not hasattr(gate, "to_quantized")
    assert parameters(gate).keys() == shapes.keys()
    gate.weight = mx.ones((4, 8))
    assert gate(mx.ones((1, 8))).tolist() == [[8, 8, 8, 8]]
