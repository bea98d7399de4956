import json
from typing import Any

import pytest
from openai import APIError, BadRequestError, NotFoundError, OpenAI
from openai.types.responses import Response
from pydantic import TypeAdapter

ASK: dict[str, Any] = {"model": "smol", "input": "Hi", "max_output_tokens": 400}
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


EVERYTHING = (
    f"<think>\nLet me söe.\n</think>\n\nI look.\n{call('weather', city='Köln')}\n"
    f"{call('weather', city='Bonn')}\nDone."
)


@pytest.fixture
def openai(scripted: Any) -> OpenAI:
    client: OpenAI = scripted.openai
    return client


def test_a_response_has_items_in_their_order(openai: OpenAI, script: Any) -> None:
    script.text = EVERYTHING
    response = openai.responses.create(**ASK, tools=[WEATHER])
    kinds = ["reasoning", "message", "function_call", "function_call", "message"]
    assert [item.type for item in response.output] == kinds
    thoughts, said, first, second, last = response.output
    assert thoughts.content[0].text == "Let me söe."
    assert said.content[0].text == "I look."
    assert [json.loads(c.arguments) for c in (first, second)] == [
        {"city": "Köln"},
        {"city": "Bonn"},
    ]
    assert first.name == "weather"
    assert first.call_id != second.call_id
    assert last.content[0].text.strip() == "Done."
    assert (response.status, response.object) == ("completed", "response")
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.output_tokens_details.reasoning_tokens > 0
    assert len({item.id for item in response.output}) == 5
    TypeAdapter(Response).validate_python(response.to_dict())


@pytest.mark.parametrize("text", [EVERYTHING, "Just text.", "", "<think>\nOnly thought"])
def test_a_stream_builds_up_the_whole_response(openai: OpenAI, script: Any, text: str) -> None:
    script.text = text
    whole = openai.responses.create(**ASK, tools=[WEATHER])
    with openai.responses.stream(**ASK, tools=[WEATHER]) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_response()
    assert _said(streamed) == _said(whole)
    assert streamed.status == whole.status
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def _said(response: Any) -> list[Any]:
    items = [item.to_dict() for item in response.output]
    return [
        (i["type"], i.get("name"), i.get("arguments"), [p["text"] for p in i.get("content") or []])
        for i in items
    ]


def test_events_are_typed_and_numbered_and_in_order(
    scripted: Any, script: Any, read_sse: Any
) -> None:
    script.text = f"<think>\nHm.\n</think>\n\nI look.\n{call('weather', city='Bonn')}"
    body = {**ASK, "tools": [WEATHER], "stream": True}
    events = read_sse(scripted.http.post("/v1/responses", json=body).content)
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    order = [(name.removeprefix("response."), data.get("output_index")) for name, data in events]
    merged = [each for i, each in enumerate(order) if i == 0 or order[i - 1] != each]
    assert merged == [
        ("created", None),
        ("in_progress", None),
        ("output_item.added", 0),
        ("content_part.added", 0),
        ("reasoning_text.delta", 0),
        ("reasoning_text.done", 0),
        ("content_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("content_part.added", 1),
        ("output_text.delta", 1),
        ("output_text.done", 1),
        ("content_part.done", 1),
        ("output_item.done", 1),
        ("output_item.added", 2),
        ("function_call_arguments.delta", 2),
        ("function_call_arguments.done", 2),
        ("output_item.done", 2),
        ("completed", None),
    ]
    last = events[-1][1]["response"]
    done = [data["item"] for name, data in events if name == "response.output_item.done"]
    assert last["output"] == done
    for index, item in enumerate(done):
        deltas = [
            data["delta"]
            for name, data in events
            if name.endswith(".delta") and data["output_index"] == index
        ]
        text = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        assert "".join(deltas) == text


def test_an_answer_cut_off_is_incomplete(openai: OpenAI, script: Any) -> None:
    script.text = "A long answer."
    response = openai.responses.create(**{**ASK, "max_output_tokens": 4})
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text == "A lo"
    assert response.output[-1].status == "incomplete"
    with openai.responses.stream(**{**ASK, "max_output_tokens": 4}) as stream:
        last = list(stream)[-1]
    assert last.type == "response.incomplete"
    assert last.response.output[-1].status == "incomplete"


def test_items_and_instructions_are_what_the_template_gets(openai: OpenAI, script: Any) -> None:
    script.text = EVERYTHING
    first = openai.responses.create(**ASK, tools=[WEATHER])
    calls = [item for item in first.output if item.type == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": c.call_id, "output": text}
        for c, text in zip(calls, ("rain", "sun"), strict=True)
    ]
    items = [{"role": "user", "content": "Hi"}, *(i.to_dict() for i in first.output), *results]
    script.text = "It rains."
    openai.responses.create(**{**ASK, "input": items}, tools=[WEATHER], instructions="Be brief.")
    by_items = script.prompts[-1]
    assert "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>" in by_items
    assert "assistant\n<think>\nLet me söe.\n</think>\n\nI look." in by_items
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}' in by_items
    assert "<|im_start|>tool\nrain<|im_end|>\n<|im_start|>tool\nsun<|im_end|>" in by_items
    assert by_items.endswith("<|im_start|>assistant\n")
    openai.responses.create(
        **{**ASK, "input": results},
        previous_response_id=first.id,
        tools=[WEATHER],
        instructions="Be brief.",
    )
    assert script.prompts[-1] == by_items


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_kept_until_it_is_deleted(openai: OpenAI, script: Any, stream: bool) -> None:
    script.text = "Hello."
    if stream:
        with openai.responses.stream(**ASK) as events:
            first = list(events)[-1].response
    else:
        first = openai.responses.create(**ASK)
    second = openai.responses.create(**ASK, previous_response_id=first.id, instructions="Hm.")
    assert second.previous_response_id == first.id
    third = openai.responses.create(**ASK, previous_response_id=second.id)
    turn = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert script.prompts[-1] == f"{turn}Hello.<|im_end|>\n" * 2 + turn
    assert openai.responses.retrieve(third.id).output_text == "Hello."
    openai.responses.delete(third.id)
    with pytest.raises(NotFoundError):
        openai.responses.retrieve(third.id)
    with pytest.raises(BadRequestError, match="not kept") as caught:
        openai.responses.create(**ASK, previous_response_id=third.id)
    assert caught.value.code == "previous_response_not_found"


def test_what_is_not_to_be_stored_is_not(openai: OpenAI) -> None:
    response = openai.responses.create(**ASK, store=False)
    with pytest.raises(NotFoundError):
        openai.responses.retrieve(response.id)


def test_effort_reaches_the_template_and_none_switches_reasoning_off(
    openai: OpenAI, script: Any
) -> None:
    script.text = "Yes."
    openai.responses.create(**ASK, reasoning={"effort": "none"})
    assert script.prompts[-1].endswith("<think>\n\n</think>\n\n")
    openai.responses.create(**ASK, reasoning={"effort": "low"})
    assert script.prompts[-1].endswith("assistant\n")


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"top_logprobs": 2}, "top_logprobs"),
        (
            {"input": [{"type": "function_call_output", "call_id": "x", "output": "a"}]},
            "input",
        ),
    ],
)
def test_R34_what_cannot_be_done_is_status_400(
    openai: OpenAI, wrong: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        openai.responses.create(**{**ASK, **wrong})
    assert caught.value.param == param


def test_R34_items_and_tools_that_nobody_knows_are_status_422(openai: OpenAI) -> None:
    for wrong in (
        {"tools": [{"type": "web_search"}]},
        {"input": [{"type": "item_reference", "id": "a"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}]},
    ):
        with pytest.raises(APIError) as caught:
            openai.responses.create(**{**ASK, **wrong})
        assert caught.value.status_code == 422  # type: ignore[attr-defined]


def test_an_error_within_a_stream_ends_it_as_failed(
    serving: Any, bytewise: Any, read_sse: Any
) -> None:
    with serving(bytewise, request_timeout=1.0) as live:
        body = {"input": "Hi", "max_output_tokens": 10**5, "ignore_eos": True, "stream": True}
        events = read_sse(live.http.post("/v1/responses", json=body).content)
    name, data = events[-1]
    assert name == "response.failed"
    assert data["sequence_number"] == len(events) - 1
    assert data["response"]["status"] == "failed"
    assert data["response"]["error"]["code"] == "timeout"


def test_cancel_takes_the_id_of_a_response(scripted: Any) -> None:
    body = {**ASK, "max_output_tokens": 4000, "ignore_eos": True, "stream": True}
    with scripted.http.stream("POST", "/v1/responses", json=body) as response:
        lines = response.iter_lines()
        data = next(line for line in lines if line.startswith("data:"))
        id = json.loads(data.removeprefix("data:"))["response"]["id"]
        assert scripted.http.post("/v1/cancel", json={"id": id}).status_code == 200
        rest = [line for line in lines if line]
    assert '"cancelled"' in rest[-1]
