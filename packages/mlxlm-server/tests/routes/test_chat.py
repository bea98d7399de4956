from typing import Any

import pytest
from openai import BadRequestError, UnprocessableEntityError

ASK: dict[str, Any] = {
    "model": "smol",
    "messages": [{"role": "user", "content": "Name three fruits."}],
    "max_completion_tokens": 12,
}


def test_a_stream_says_what_the_whole_answer_says(live: Any) -> None:
    whole = live.openai.chat.completions.create(**ASK)
    chunks = list(
        live.openai.chat.completions.create(
            **ASK, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content != ""
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "length"


def test_a_second_request_reuses_the_prompt(live: Any) -> None:
    live.openai.chat.completions.create(**ASK)
    usage = live.openai.chat.completions.create(**ASK).usage
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


def test_R36_top_logprobs_begin_with_the_greedy_token(live: Any) -> None:
    choice = live.openai.chat.completions.create(**ASK, logprobs=True, top_logprobs=3).choices[0]
    assert len(choice.logprobs.content) == 12
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob)


def test_seeds_draw_the_same_again_and_n_answers_differ(live: Any) -> None:
    ask = {**ASK, "n": 2, "seed": 5, "temperature": 1.5}
    first, again = (live.openai.chat.completions.create(**ask) for _ in range(2))
    texts = [choice.message.content for choice in first.choices]
    assert texts == [choice.message.content for choice in again.choices]
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_choice": "required"},
        {"top_logprobs": 3},
        {"extra_body": {"reasoning_budget": 3}},
        {"logit_bias": {"99999999": 1}},
        {"top_p": 7},
    ],
)
def test_R34_what_cannot_be_done_is_status_400(live: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError) as caught:
        live.openai.chat.completions.create(**ASK, **wrong)
    assert caught.value.type == "invalid_request_error"


def test_R34_a_field_of_the_wrong_type_is_status_422(live: Any) -> None:
    with pytest.raises(UnprocessableEntityError, match="temperature"):
        live.openai.chat.completions.create(**ASK, temperature="hot")
