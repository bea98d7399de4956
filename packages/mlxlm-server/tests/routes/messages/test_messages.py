import json
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError, BadRequestError

ASK: dict[str, Any] = {
    "model": "smol",
    "max_tokens": 400,
    "messages": [{"role": "user", "content": "Hi"}],
}
WEATHER = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


EVERYTHING = (
    f"<think>\nLet me söe.\n</think>\n\nI look.\n{call('weather', city='Köln')}\n"
    f"{call('weather', city='Bonn')}\nDone."
)


def test_a_message_has_thinking_text_and_uses_of_tools_in_their_order(
    anthropic: Anthropic, script: Any
) -> None:
    script.text = EVERYTHING
    message = anthropic.messages.create(**ASK, tools=[WEATHER])
    assert [block.type for block in message.content] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
        "text",
    ]
    thinking, text, first, second, last = message.content
    assert thinking.thinking == "Let me söe."
    assert text.text == "I look."
    assert (first.name, first.input, second.input) == (
        "weather",
        {"city": "Köln"},
        {"city": "Bonn"},
    )
    assert first.id != second.id
    assert last.text.strip() == "Done."
    assert (message.stop_reason, message.stop_sequence) == ("tool_use", None)
    assert message.role == "assistant"
    assert message.type == "message"


@pytest.mark.parametrize("text", [EVERYTHING, "Just text.", "", "<think>\nOnly thought"])
def test_a_stream_builds_up_the_whole_message(anthropic: Anthropic, script: Any, text: str) -> None:
    script.text = text
    whole = anthropic.messages.create(**ASK, tools=[WEATHER]).to_dict()
    with anthropic.messages.stream(**ASK, tools=[WEATHER]) as stream:
        streamed = stream.get_final_message().to_dict()
    for message in (whole, streamed):
        for block in message["content"]:
            block.pop("id", None)
            block.pop("parsed_output", None)
    assert streamed["content"] == whole["content"]
    assert streamed["stop_reason"] == whole["stop_reason"]
    assert streamed["usage"]["output_tokens"] == whole["usage"]["output_tokens"]


def test_events_come_in_Anthropics_order(scripted: Any, script: Any, read_sse: Any) -> None:
    script.text = f"<think>\nHm.\n</think>\n\nI look.\n{call('weather', city='Bonn')}"
    body = {**ASK, "tools": [WEATHER], "stream": True}
    response = scripted.http.post("/v1/messages", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = read_sse(response.content)
    assert all(name == data["type"] for name, data in events)
    order = [(name, data.get("index"), data.get("delta", {}).get("type")) for name, data in events]
    merged = [each for i, each in enumerate(order) if i == 0 or order[i - 1] != each]
    delta, start, stop = "content_block_delta", "content_block_start", "content_block_stop"
    assert merged == [
        ("message_start", None, None),
        ("ping", None, None),
        (start, 0, None),
        (delta, 0, "thinking_delta"),
        (delta, 0, "signature_delta"),
        (stop, 0, None),
        (start, 1, None),
        (delta, 1, "text_delta"),
        (stop, 1, None),
        (start, 2, None),
        (delta, 2, "input_json_delta"),
        (stop, 2, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]
    begun = next(data for _, data in events if data.get("index") == 2)["content_block"]
    assert begun["input"] == {}
    assert begun["id"]
    start_message = events[0][1]["message"]
    assert (start_message["content"], start_message["stop_reason"]) == ([], None)


def test_a_malformed_call_is_text(anthropic: Anthropic, script: Any) -> None:
    script.text = '<tool_call>\n{"name": "weather", "arguments": oh no}\n</tool_call>'
    message = anthropic.messages.create(**ASK, tools=[WEATHER])
    assert [block.type for block in message.content] == ["text"]
    assert "oh no" in message.content[0].text
    assert message.stop_reason == "end_turn"


def test_a_conversation_with_results_is_what_the_template_gets(
    anthropic: Anthropic, script: Any
) -> None:
    script.text = EVERYTHING
    first = anthropic.messages.create(**ASK, tools=[WEATHER], system="Be brief.")
    ids = [block.id for block in first.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": ids[0], "content": "rain"},
        {"type": "tool_result", "tool_use_id": ids[1], "content": "no", "is_error": True},
        {"type": "text", "text": "So?"},
    ]
    script.text = "It rains."
    messages = [
        *ASK["messages"],
        {"role": "assistant", "content": first.to_dict()["content"]},
        {"role": "user", "content": results},
    ]
    system = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]
    anthropic.messages.create(**{**ASK, "messages": messages}, tools=[WEATHER], system=system)
    prompt = script.prompts[-1]
    assert "<|im_start|>system\nBe\nbrief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>" in prompt
    assert "assistant\n<think>\nLet me söe.\n</think>\n\nI look." in prompt
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}' in prompt
    assert "<|im_start|>tool\nrain<|im_end|>\n<|im_start|>tool\nError: no<|im_end|>" in prompt
    assert prompt.endswith("<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n")


def test_a_last_message_of_the_assistant_is_continued(anthropic: Anthropic, script: Any) -> None:
    script.text = " World."
    messages = [*ASK["messages"], {"role": "assistant", "content": "Hello"}]
    message = anthropic.messages.create(**{**ASK, "messages": messages})
    assert script.prompts[-1].endswith("assistant\nHello")
    assert message.content[0].text == " World."


def test_a_stop_sequence_is_told_and_not_shown(anthropic: Anthropic, script: Any) -> None:
    script.text = "One, two, three."
    message = anthropic.messages.create(**ASK, stop_sequences=[", th"])
    assert message.content[0].text == "One, two"
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", ", th")
    short = anthropic.messages.create(**{**ASK, "max_tokens": 3})
    assert (short.stop_reason, short.content[0].text) == ("max_tokens", "One")


def test_a_budget_ends_the_thinking(anthropic: Anthropic, script: Any) -> None:
    script.text = "<think>\nA long, long thought about nothing.\n</think>\n\nYes."
    thinking = {"type": "enabled", "budget_tokens": 12}
    message = anthropic.messages.create(**ASK, thinking=thinking)
    assert message.content[0].thinking == "A long, lon"
    assert message.content[1].text == "Yes."
    free = anthropic.messages.create(**ASK)
    assert free.content[0].thinking == "A long, long thought about nothing."


def test_thinking_is_switched_by_the_template(anthropic: Anthropic, script: Any) -> None:
    script.text = "Yes."
    anthropic.messages.create(**ASK, thinking={"type": "disabled"})
    assert script.prompts[-1].endswith("<think>\n\n</think>\n\n")
    anthropic.messages.create(**ASK, thinking={"type": "adaptive"})
    assert script.prompts[-1].endswith("assistant\n")


def test_usage_parts_the_prompt_into_computed_and_cached(anthropic: Anthropic, script: Any) -> None:
    script.text = "Yes."
    messages = [{"role": "user", "content": "A question of its own, asked twice."}]
    ask = {**ASK, "messages": messages}
    first, second = (anthropic.messages.create(**ask).usage for _ in range(2))
    count = anthropic.messages.count_tokens(model="smol", messages=messages).input_tokens
    assert second.input_tokens == 1
    assert second.input_tokens + second.cache_read_input_tokens == count
    assert first.input_tokens + first.cache_read_input_tokens == count
    assert first.output_tokens == len("Yes.")
    with anthropic.messages.stream(**ask) as stream:
        begun = next(event for event in stream if event.type == "message_start")
        final = stream.get_final_message().usage
    assert begun.message.usage.cache_read_input_tokens == count - 1
    assert (final.cache_read_input_tokens, final.output_tokens) == (count - 1, 4)


def test_a_count_includes_tools_and_system(anthropic: Anthropic) -> None:
    ask = {"model": "smol", "messages": ASK["messages"]}
    bare = anthropic.messages.count_tokens(**ask).input_tokens
    system = anthropic.messages.count_tokens(**ask, system="Be brief.").input_tokens
    tools = anthropic.messages.count_tokens(**ask, tools=[WEATHER]).input_tokens
    none = {"type": "none"}
    unused = anthropic.messages.count_tokens(**ask, tools=[WEATHER], tool_choice=none).input_tokens
    assert bare == unused < system < tools


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"extra_body": {"temperature": -1}}, "temp"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"extra_body": {"n": 2}}, "n"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "type"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "x", "content": "a"}],
                    }
                ]
            },
            "'x'",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "thinking", "thinking": "a", "signature": ""}],
                    }
                ]
            },
            "user",
        ),
    ],
)
def test_R34_what_cannot_be_done_is_status_400_in_Anthropics_form(
    anthropic: Anthropic, extra: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        anthropic.messages.create(**{**ASK, **extra})
    body = caught.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert said in body["error"]["message"]
    assert body["request_id"] == caught.value.request_id


def test_either_header_carries_the_key_and_errors_have_Anthropics_form(
    bytewise: Any, serving: Any
) -> None:
    with serving(bytewise, api_keys=("right",), max_body_bytes=1000) as live:
        for credentials in ({"api_key": "right"}, {"auth_token": "right"}):
            with Anthropic(base_url=live.url, max_retries=0, **credentials) as client:
                assert client.messages.create(**{**ASK, "max_tokens": 2}).usage.output_tokens
        with Anthropic(base_url=live.url, max_retries=0, api_key="wrong") as client:
            _refused(client, ASK, 401, "authentication_error")
        with Anthropic(base_url=live.url, max_retries=0, api_key="right") as client:
            _refused(client, {**ASK, "model": "other"}, 404, "not_found_error")
            long = [{"role": "user", "content": "x" * 1000}]
            _refused(client, {**ASK, "messages": long}, 413, "request_too_large")


def _refused(client: Anthropic, ask: dict[str, Any], status: int, kind: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        client.messages.create(**ask)
    assert caught.value.status_code == status
    assert caught.value.body["error"]["type"] == kind  # type: ignore[index]


def test_unknown_fields_are_refused_at_any_depth_where_the_server_is_strict(
    serving: Any, bytewise: Any
) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a", "odd": 1}]}
    body = {**ASK, "max_tokens": 1, "messages": [message]}
    with serving(bytewise, strict=True) as live:
        response = live.http.post("/v1/messages", json=body)
        assert response.status_code == 400
        assert "messages.0.content.0.odd" in response.json()["error"]["message"]
        message["content"][0] |= {"cache_control": {"type": "ephemeral"}}
        del message["content"][0]["odd"]
        assert live.http.post("/v1/messages", json=body).status_code == 200


def test_an_error_within_a_stream_is_an_event(serving: Any, bytewise: Any, read_sse: Any) -> None:
    with serving(bytewise, request_timeout=1.0) as live:
        body = {**ASK, "max_tokens": 10**5, "ignore_eos": True, "stream": True}
        response = live.http.post("/v1/messages", json=body)
    events = read_sse(response.content)
    assert events[0][0] == "message_start"
    name, data = events[-1]
    assert name == data["type"] == "error"
    assert data["error"]["type"] == "overloaded_error"
    assert "longer than the limit" in data["error"]["message"]
    assert data["request_id"] == response.headers["request-id"]
