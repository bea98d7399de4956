import logging
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cli.generate import build_parser
from mlxlm_cli.sampling import make_sampler


class Tokenizer:
    eos_token_ids = (3,)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [2]


def sampler(*argv: str) -> Any:
    return make_sampler(build_parser().parse_args(argv), Tokenizer())


def test_R04_temp_0_is_greedy_with_one_warning_that_names_the_flags(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    with caplog.at_level(logging.WARNING):
        greedy = sampler("--top-k", "1", "--xtc-probability", "1", "--top-p", "1")
    assert greedy(mx.array([[-3.0, -1.0, -2.0]])).item() == 1
    assert len(caplog.records) + len(recwarn) == 1
    assert "--xtc-probability, --top-k have no effect" in caplog.text.replace(
        "--top-k, --xtc-probability", "--xtc-probability, --top-k"
    )
    assert "--top-p" not in caplog.text


def test_R04_no_warning_without_idle_flags(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    sampler()
    sampler("--temp", "1", "--top-k", "2", "--xtc-probability", "0.5", "--min-p", "0.1")
    assert not caplog.records
    assert not recwarn


def test_a_threshold_alone_has_no_effect_and_that_is_said(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    sampler("--temp", "1", "--xtc-threshold", "0.2")
    assert "--xtc-threshold has no effect" in caplog.text
    assert len(caplog.records) + len(recwarn) == 1


def test_R06_xtc_spares_newline_and_end_of_the_tokenizer() -> None:
    xtc = sampler("--temp", "1", "--xtc-probability", "1", "--xtc-threshold", "0.05")
    logprobs = mx.log(mx.array([[0.1, 0.1, 0.4, 0.4]]))
    mx.random.seed(1)
    drawn = {xtc(logprobs).item() for _ in range(60)}
    assert {2, 3} <= drawn


def test_flags_reach_the_sampler() -> None:
    narrow = sampler("--temp", "1", "--top-k", "1")
    assert {narrow(mx.array([[-3.0, -1.0, -2.0]])).item() for _ in range(20)} == {1}
