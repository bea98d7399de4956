"""Over a socket, with SmolLM2."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": SCHEMA}}
ASK: dict[str, Any] = {
    "model": "smol",
    "messages": [{"role": "user", "content": "Invent a person."}],
    "max_completion_tokens": 80,
}
PROMPT: dict[str, Any] = {"prompt": "A person: ", "max_tokens": 80}


def test_each_answer_is_of_the_schema_streamed_or_not(live: Any) -> None:
    ask = {**ASK, "response_format": FORMAT, "n": 2, "seed": 3, "temperature": 1.2}
    whole = live.openai.chat.completions.create(**ask)
    texts = ["", ""]
    for chunk in live.openai.chat.completions.create(**ask, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    for choice in whole.choices:
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(choice.message.content), SCHEMA)
    assert texts == [choice.message.content for choice in whole.choices]


def test_neighbours_answer_as_alone(live: Any) -> None:
    plain = {**ASK, "max_completion_tokens": 24}
    alone = live.openai.chat.completions.create(**plain).choices[0].message.content

    def ask(i: int) -> str:
        more = {} if i % 2 else {"response_format": FORMAT}
        answer = live.openai.chat.completions.create(**plain, **more)
        return str(answer.choices[0].message.content)

    with ThreadPoolExecutor(6) as threads:
        texts = list(threads.map(ask, range(6)))
    assert texts[1::2] == [alone] * 3
    assert all(text.startswith("{") for text in texts[::2])


@pytest.mark.parametrize("stream", [False, True])
def test_completions_follow_a_regex_and_a_choice(live: Any, stream: bool) -> None:
    for field, value, texts in (
        ("regex", "red|blue", {"red", "blue"}),
        ("guided_choice", ["yes", "no"], {"yes", "no"}),
    ):
        made = live.openai.completions.create(
            model="smol", **PROMPT, stream=stream, extra_body={field: value}
        )
        parts = made if stream else [made]
        assert "".join(part.choices[0].text for part in parts) in texts


def test_an_answer_that_is_not_over_at_the_limit_says_length(live: Any) -> None:
    ask = {**ASK, "max_completion_tokens": 3, "response_format": {"type": "json_object"}}
    (choice,) = live.openai.chat.completions.create(**ask).choices
    assert choice.finish_reason == "length"
    assert choice.message.content.startswith("{")


@pytest.mark.parametrize(
    ("wrong", "param", "says"),
    [
        ({"guided_json": {"type": "strang"}}, "guided_json", "strang"),
        ({"regex": "("}, "regex", "unclosed"),
        ({"regex": "a", "ignore_eos": True}, "ignore_eos", "leave it out"),
        ({"regex": "a", "min_tokens": 3}, "min_tokens", "leave it out"),
    ],
)
def test_R34_what_cannot_be_is_status_400_with_the_reason(
    live: Any, wrong: dict[str, Any], param: str, says: str
) -> None:
    answer = live.http.post("/v1/completions", json={**PROMPT, **wrong})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert says in error["message"]


def test_without_the_extra_the_error_names_it(serve: Any, monkeypatch: Any) -> None:
    live = serve()
    monkeypatch.setitem(sys.modules, "llguidance", None)
    answer = live.http.post("/v1/completions", json={**PROMPT, "regex": "a"})
    assert answer.status_code == 400
    assert "mlxlm-server[structured]" in answer.json()["error"]["message"]
