import inspect
from dataclasses import replace
from typing import Any

import pytest
from mlxlm_generate import (
    GENERATION,
    InvalidPrompt,
    generate,
    generate_step,
    statistics,
    stream_generate,
)

EOS = 257


def test_returns_the_text(oracle: Any, tokenizer: Any) -> None:
    assert generate(oracle([*b"Hello", EOS], 1), tokenizer, "a") == "Hello"


def test_R01_no_text_is_the_empty_string(oracle: Any, tokenizer: Any) -> None:
    assert generate(oracle([EOS], 1), tokenizer, "a") == ""
    assert generate(oracle([72], 1), tokenizer, "a", max_tokens=0) == ""


def test_verbose_keeps_stdout_for_the_text(
    oracle: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = generate(oracle([*b"Hello", EOS], 1), tokenizer, "a", verbose=True)
    out, err = capsys.readouterr()
    assert out == text + "\n" == "Hello\n"
    assert "Prompt: 1 tokens" in err
    assert "Generation: 6 tokens" in err
    assert "Peak memory:" in err


def test_silent_without_verbose(
    oracle: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(oracle([*b"Hello", EOS], 1), tokenizer, "a")
    assert capsys.readouterr() == ("", "")


def test_statistics_in_lines(oracle: Any, tokenizer: Any) -> None:
    *_, last = stream_generate(oracle([*b"Hello", EOS], 1), tokenizer, "a")
    assert len(statistics(last).splitlines()) == 3
    guessed = statistics(replace(last, drafted=8, accepted=6))
    assert guessed.splitlines()[2] == "Guesses: 8 tokens, 6 accepted (75.0%)"


def test_R03_every_option_of_streaming_is_one_here() -> None:
    """Only log-probabilities have no place in a text."""

    def options(function: Any) -> dict[str, Any]:
        return {name: p.default for name, p in inspect.signature(function).parameters.items()}

    streaming, whole, steps = (options(f) for f in (stream_generate, generate, generate_step))
    assert {name: whole[name] for name in streaming if name != "logprobs"} == {
        name: value for name, value in streaming.items() if name != "logprobs"
    }
    assert streaming.keys() >= steps.keys()
    for table in (streaming, whole, steps):
        assert table["max_tokens"] == GENERATION.max_tokens
        assert table["prefill_step_size"] == GENERATION.prefill_step_size


def test_R14_R56_defaults_are_the_tables() -> None:
    for function in (stream_generate, generate, generate_step):
        parameters = inspect.signature(function).parameters
        assert parameters["quantized_kv_start"].default == GENERATION.quantized_kv_start == 5000
        assert parameters["kv_group_size"].default == GENERATION.kv_group_size == 64


def test_errors_come_through(oracle: Any, tokenizer: Any) -> None:
    with pytest.raises(InvalidPrompt):
        generate(oracle([EOS], 1), tokenizer, "")
    with pytest.raises(TypeError, match="temp"):
        generate(oracle([EOS], 1), tokenizer, "a", temp=0.5)  # type: ignore[call-arg]
