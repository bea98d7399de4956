from typing import Any

import pytest
from mlxlm_sample import ProcessorOptions, SamplingOptionError, SamplingOptions

BAD_SAMPLING = [
    {"temp": -1},
    {"temp": -0.01},
    {"temp": float("nan")},
    {"temp": float("inf")},
    {"temp": "1"},
    {"top_p": -0.1},
    {"top_p": 1.1},
    {"top_p": None},
    {"min_p": -0.1},
    {"min_p": 1.1},
    {"min_tokens_to_keep": 0},
    {"min_tokens_to_keep": 1.0},
    {"top_k": -1},
    {"top_k": 1.5},
    {"top_k": True},
    {"xtc_probability": 1.1},
    {"xtc_threshold": 0.51},
    {"xtc_special_tokens": (1, -1)},
]
BAD_PROCESSORS = [
    {"logit_bias": {-1: 0.0}},
    {"repetition_penalty": -1.0},
    {"repetition_penalty": float("nan")},
    {"presence_penalty": float("nan")},
    {"frequency_penalty": float("inf")},
    {"repetition_context_size": 0},
    {"presence_context_size": -5},
    {"frequency_context_size": 0.5},
]


@pytest.mark.parametrize("bad", BAD_SAMPLING)
def test_a_sampling_value_out_of_range_names_its_argument(bad: dict[str, Any]) -> None:
    (argument,) = bad
    with pytest.raises(SamplingOptionError, match=f"`{argument}`") as caught:
        SamplingOptions(**bad)
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", BAD_PROCESSORS)
def test_a_processor_value_out_of_range_names_its_argument(bad: dict[str, Any]) -> None:
    (argument,) = bad
    with pytest.raises(SamplingOptionError, match=f"`{argument}`") as caught:
        ProcessorOptions(**bad)
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


def test_the_ends_of_every_interval_are_legal() -> None:
    SamplingOptions(0, 0, 0, 1, 0, 0, 0)
    SamplingOptions(1e9, 1, 1, 10**6, 10**6, 1, 0.5, (0,))
    ProcessorOptions({0: float("-inf")}, 0, 1, -2.0, None, -2.0, 1)


def test_top_k_0_with_others_is_legal_and_off() -> None:
    assert SamplingOptions(temp=1, top_k=0, top_p=0.9, min_p=0.1).ignored() == ()


def test_R04_ignored_settings_of_a_greedy_draw_are_those_given() -> None:
    assert SamplingOptions().ignored() == ()
    assert SamplingOptions(top_p=1, xtc_special_tokens=(1,)).ignored() == ()
    options = SamplingOptions(top_p=0.5, top_k=3, xtc_threshold=0.2)
    assert options.ignored() == ("top_p", "top_k", "xtc_threshold")


def test_ignored_settings_of_a_draw_are_those_of_a_filter_that_is_off() -> None:
    assert SamplingOptions(1, xtc_threshold=0.2, top_p=0.5).ignored() == ("xtc_threshold",)
    assert SamplingOptions(1, min_tokens_to_keep=2).ignored() == ("min_tokens_to_keep",)
    assert SamplingOptions(1, min_p=0.1, min_tokens_to_keep=2).ignored() == ()
