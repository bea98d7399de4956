from dataclasses import FrozenInstanceError
from threading import Thread
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import make_prompt_cache
from mlxlm_generate import InvalidOption, InvalidPrompt, NGramDrafter, stream_generate

EOS = 257


def said(text: str) -> list[int]:
    return [*text.encode(), EOS]


def test_streams_text_and_says_why_it_stopped(oracle: Any, tokenizer: Any) -> None:
    responses = list(stream_generate(oracle(said("Hi!"), 2), tokenizer, "ab"))
    assert [r.text for r in responses] == ["H", "i", "!", ""]
    assert [r.token for r in responses] == [72, 105, 33, None]
    assert [r.finish_reason for r in responses] == [None, None, None, "stop"]
    assert [r.stop_token for r in responses] == [None, None, None, EOS]
    assert [r.generation_tokens for r in responses] == [1, 2, 3, 4]
    assert {r.prompt_tokens for r in responses} == {2}
    assert not any(r.from_draft for r in responses)


def test_length_ends_with_the_last_token(oracle: Any, tokenizer: Any) -> None:
    responses = list(stream_generate(oracle(said("Hello"), 2), tokenizer, "ab", max_tokens=3))
    assert [r.text for r in responses] == ["H", "e", "l"]
    assert responses[-1].token == 108
    assert responses[-1].finish_reason == "length"
    assert responses[-1].generation_tokens == 3


def test_stop_token_at_max_tokens_is_a_stop(oracle: Any, tokenizer: Any) -> None:
    *_, last = stream_generate(oracle(said("Hi"), 2), tokenizer, "ab", max_tokens=3)
    assert last.finish_reason == "stop"


def test_no_half_characters(oracle: Any, tokenizer: Any) -> None:
    texts = [r.text for r in stream_generate(oracle(said("né€😀"), 1), tokenizer, "a")]
    assert [text for text in texts if text] == ["n", "é", "€", "😀"]


def test_text_cut_in_a_character_comes_at_the_end(oracle: Any, tokenizer: Any) -> None:
    *_, last = stream_generate(oracle(said("a€"), 1), tokenizer, "a", max_tokens=3)
    assert last.text == "\ufffd"
    assert last.finish_reason == "length"


def test_R02_max_tokens_zero_prefills_and_yields_one_response(model: Any, tokenizer: Any) -> None:
    cache = make_prompt_cache(model)
    (only,) = stream_generate(model, tokenizer, "hello", max_tokens=0, prompt_cache=cache)
    assert (only.text, only.token, only.finish_reason) == ("", None, "length")
    assert (only.generation_tokens, only.generation_tps, only.prompt_tokens) == (0, 0.0, 5)
    assert only.prompt_tps > 0
    assert [layer.offset for layer in cache] == [5, 5]


def test_stop_token_is_in_the_cache(oracle: Any, tokenizer: Any) -> None:
    """So that a conversation goes on after it, as its template expects."""
    talker = oracle(said("Hi!"), 2)
    cache = make_prompt_cache(talker)
    responses = list(stream_generate(talker, tokenizer, "ab", prompt_cache=cache))
    assert cache[0].offset == 2 + responses[-1].generation_tokens == 6


def test_closing_early_keeps_what_was_given(oracle: Any, tokenizer: Any) -> None:
    talker = oracle(said("Hello"), 2)
    cache = make_prompt_cache(talker)
    responses = stream_generate(talker, tokenizer, "ab", prompt_cache=cache)
    next(responses)
    next(responses)
    responses.close()
    assert cache[0].offset == 4


def test_speeds_and_memory(model: Any, tokenizer: Any) -> None:
    responses = list(stream_generate(model, tokenizer, "hello", max_tokens=20))
    assert responses[0].generation_tps == 0.0
    assert all(r.generation_tps > 0 for r in responses[1:])
    assert all(r.prompt_tps == responses[0].prompt_tps > 0 for r in responses)
    assert responses[-1].peak_memory == pytest.approx(mx.get_peak_memory() / 1e9)


def test_responses_are_frozen(model: Any, tokenizer: Any) -> None:
    response = next(stream_generate(model, tokenizer, "hello"))
    with pytest.raises(FrozenInstanceError):
        response.text = "other"  # type: ignore[misc]


def test_R60_log_probabilities_only_on_request(model: Any, tokenizer: Any) -> None:
    def last(logprobs: Any) -> Any:
        *_, response = stream_generate(model, tokenizer, "hi", max_tokens=4, logprobs=logprobs)
        return response

    none, sampled, top, full = (last(request) for request in (None, "sampled", 3, "full"))
    assert (none.logprob, none.top_logprobs, none.logprobs) == (None, None, None)
    assert sampled.logprob < 0
    assert (sampled.top_logprobs, sampled.logprobs) == (None, None)
    assert top.logprobs is None
    assert len(top.top_logprobs) == 3
    assert top.top_logprobs[0] == (top.token, top.logprob)
    assert [value for _, value in top.top_logprobs] == sorted(
        (value for _, value in top.top_logprobs), reverse=True
    )
    assert full.top_logprobs is None
    assert full.logprobs.shape == (258,)
    assert full.logprobs[full.token].item() == full.logprob == sampled.logprob == top.logprob


def test_R60_a_stop_has_no_log_probability(oracle: Any, tokenizer: Any) -> None:
    *_, last = stream_generate(oracle(said("Hi"), 1), tokenizer, "a", logprobs="sampled")
    assert last.logprob is None


def test_R58_streams_from_a_worker_thread(model: Any, tokenizer: Any) -> None:
    texts: list[str] = []

    def work() -> None:
        texts.extend(r.text for r in stream_generate(model, tokenizer, "hello", max_tokens=8))

    worker = Thread(target=work)
    worker.start()
    worker.join()
    assert texts == [r.text for r in stream_generate(model, tokenizer, "hello", max_tokens=8)]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"drafter": NGramDrafter(), "num_draft_tokens": 0}, InvalidOption, "num_draft_tokens=0"),
        ({"num_draft_tokens": 3}, InvalidOption, "num_draft_tokens=3"),
        ({"max_tokens": -5}, InvalidOption, "max_tokens=-5"),
        ({"logprobs": 0}, InvalidOption, "logprobs=0"),
        ({"logprobs": True}, InvalidOption, "logprobs=True"),
        ({"logprobs": "all"}, InvalidOption, "logprobs='all'"),
        ({"max_kv_size": 16, "prompt_cache": []}, InvalidOption, "max_kv_size=16"),
        ({"temperature": 1.0}, TypeError, "temperature"),
    ],
)
def test_R03_wrong_options_raise_at_the_call(
    model: Any, tokenizer: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        stream_generate(model, tokenizer, "hello", **options)


@pytest.mark.parametrize("prompt", ["", [], mx.array([], dtype=mx.uint32)])
def test_empty_prompt_is_an_error(model: Any, tokenizer: Any, prompt: Any) -> None:
    with pytest.raises(InvalidPrompt, match="The prompt is empty"):
        stream_generate(model, tokenizer, prompt)


def test_R03_progress_is_heard(model: Any, tokenizer: Any) -> None:
    heard: list[tuple[int, int]] = []
    list(
        stream_generate(
            model,
            tokenizer,
            "0123456789",
            max_tokens=2,
            prefill_step_size=4,
            prompt_progress_callback=lambda done, total: heard.append((done, total)),
        )
    )
    assert heard == [(0, 10), (4, 10), (8, 10), (9, 10), (10, 10)]
