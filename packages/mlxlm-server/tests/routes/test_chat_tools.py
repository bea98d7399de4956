"""Tool calls and reasoning of a model that says what a test wants, through OpenAI's client."""

import json
from typing import Any

import pytest
from openai import OpenAI

ASK: dict[str, Any] = {
    "model": "smol",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_completion_tokens": 400,
}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


THOUGHT = "<think>\nLet me söe.\n</think>\n\n"
BOTH = f"I look.\n{call('weather', city='Köln')}\n{call('weather', city='Bonn')}"
MALFORMED = '<tool_call>\n{"name": "weather", "arguments": oh no}\n</tool_call>'


@pytest.fixture
def openai(scripted: Any) -> OpenAI:
    client: OpenAI = scripted.openai
    return client


def test_R35_reasoning_has_both_of_its_names_and_calls_are_parallel(
    openai: OpenAI, script: Any
) -> None:
    script.text = THOUGHT + BOTH
    completion = openai.chat.completions.create(**ASK, tools=[WEATHER])
    message = completion.choices[0].message
    extra = message.model_extra
    assert extra["reasoning_content"] == extra["reasoning"] == "Let me söe."
    assert message.content == "I look."
    arguments = [json.loads(c.function.arguments) for c in message.tool_calls]
    assert arguments == [{"city": "Köln"}, {"city": "Bonn"}]
    assert {c.function.name for c in message.tool_calls} == {"weather"}
    assert len({c.id for c in message.tool_calls}) == 2
    assert completion.choices[0].finish_reason == "tool_calls"
    details = completion.usage.completion_tokens_details
    assert 0 < details.reasoning_tokens < completion.usage.completion_tokens


@pytest.mark.parametrize(
    "text",
    [
        THOUGHT + BOTH,
        BOTH + "\nDone.",
        MALFORMED,
        THOUGHT + MALFORMED + BOTH,
        "Text.",
        "<think>\nHm",
    ],
)
def test_a_stream_says_what_the_whole_answer_says(
    scripted: Any, script: Any, read_sse: Any, text: str
) -> None:
    script.text = text
    body = {**ASK, "tools": [WEATHER]}
    whole = scripted.http.post("/v1/chat/completions", json=body).json()["choices"][0]
    response = scripted.http.post("/v1/chat/completions", json={**body, "stream": True})
    events = read_sse(response.content)
    assert events.pop() == (None, "[DONE]")
    assert all(name is None for name, _ in events)
    streamed = _built([data["choices"][0]["delta"] for _, data in events])
    assert streamed == _without_ids(whole["message"])
    ends = [data["choices"][0]["finish_reason"] for _, data in events]
    assert ends == [None] * (len(ends) - 1) + [whole["finish_reason"]]
    assert events[0][1]["choices"][0]["delta"]["role"] == "assistant"


def _built(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a message together from its deltas, as a client does."""
    made: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for delta in deltas:
        for name in ("content", "reasoning_content"):
            made[name] += delta.get(name) or ""
        for piece in delta.get("tool_calls", ()):
            if piece["index"] == len(made["tool_calls"]):
                assert piece["id"]
                assert piece["type"] == "function"
                made["tool_calls"].append({**piece["function"]})
            else:
                made["tool_calls"][piece["index"]]["arguments"] += piece["function"]["arguments"]
    return made


def _without_ids(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "content": message["content"] or "",
        "reasoning_content": message.get("reasoning_content", ""),
        "tool_calls": [call["function"] for call in message.get("tool_calls", ())],
    }


def test_a_malformed_call_is_text(openai: OpenAI, script: Any) -> None:
    script.text = MALFORMED
    choice = openai.chat.completions.create(**ASK, tools=[WEATHER]).choices[0]
    assert choice.message.content == MALFORMED
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"


def test_without_tools_a_call_is_text(openai: OpenAI, script: Any) -> None:
    script.text = call("weather", city="Bonn")
    for extra in ({}, {"tools": [WEATHER], "tool_choice": "none"}):
        choice = openai.chat.completions.create(**ASK, **extra).choices[0]
        assert choice.message.content == script.text
        assert "<|im_start|>tools" not in script.prompts[-1]


def test_calls_and_results_are_what_the_template_gets(openai: OpenAI, script: Any) -> None:
    script.text = THOUGHT + BOTH
    said = openai.chat.completions.create(**ASK, tools=[WEATHER]).choices[0].message
    results = [
        {"role": "tool", "tool_call_id": c.id, "content": text}
        for c, text in zip(said.tool_calls, ("rain", "sun"), strict=True)
    ]
    script.text = "It rains."
    messages = [*ASK["messages"], said.to_dict(), *results]
    openai.chat.completions.create(**{**ASK, "messages": messages}, tools=[WEATHER])
    prompt = script.prompts[-1]
    assert "assistant\n<think>\nLet me söe.\n</think>\n\nI look.\n<tool_call>" in prompt
    assert '{"name": "weather", "arguments": {"city": "Köln"}}' in prompt
    assert "<|im_start|>tool\nrain<|im_end|>\n<|im_start|>tool\nsun<|im_end|>" in prompt


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_R35_reasoning_comes_back_under_either_name(openai: OpenAI, script: Any, name: str) -> None:
    said = {"role": "assistant", "content": "Hello.", name: "Hm."}
    openai.chat.completions.create(
        **{**ASK, "messages": [*ASK["messages"], said, *ASK["messages"]]}
    )
    assert "<think>\nHm.\n</think>\n\nHello." in script.prompts[-1]


def test_a_budget_ends_the_reasoning(openai: OpenAI, script: Any) -> None:
    script.text = "<think>\nA long, long thought about nothing.\n</think>\n\nYes."
    message = (
        openai.chat.completions.create(**ASK, extra_body={"reasoning_budget": 12})
        .choices[0]
        .message
    )
    assert message.content == "Yes."
    assert message.model_extra["reasoning"] == "A long, lon"


def test_n_answers_stream_side_by_side_with_their_log_probabilities(
    scripted: Any, script: Any, read_sse: Any
) -> None:
    script.text = "Yes, yes."
    body = {
        **ASK,
        "n": 2,
        "logprobs": True,
        "top_logprobs": 2,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    events = read_sse(scripted.http.post("/v1/chat/completions", json=body).content)
    *events, last, done = [data for _, data in events]
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 2 * len(script.text)
    for index in range(2):
        mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == index]
        records = [r for c in mine for r in (c["logprobs"] or {}).get("content", ())]
        assert "".join(record["token"] for record in records) == script.text
        assert all(len(record["top_logprobs"]) == 2 for record in records)
        assert "".join(c["delta"].get("content") or "" for c in mine) == script.text


def test_only_the_first_call_counts_where_parallel_ones_are_ruled_out(
    openai: OpenAI, script: Any
) -> None:
    script.text = BOTH
    ask = {**ASK, "tools": [WEATHER], "parallel_tool_calls": False}
    (whole,) = openai.chat.completions.create(**ask).choices
    (call,) = whole.message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Köln"}
    chunks = openai.chat.completions.create(**ask, stream=True)
    calls = [c for chunk in chunks for c in chunk.choices[0].delta.tool_calls or ()]
    assert {c.index for c in calls} == {0}
