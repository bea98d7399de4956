"""Tool calls that must come, over a socket, with SmolLM2."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema
import pytest
from mlxlm_models import TokenizerWrapper

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"enum": [1, 2, 3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now"}}
ASK: dict[str, Any] = {
    "model": "smol",
    "messages": [{"role": "user", "content": "How is the weather in Rome?"}],
    "max_completion_tokens": 120,
    "tools": [WEATHER, NOW],
}
NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture(scope="module")
def caller(loaded: tuple[Any, Any], serving: Any) -> Iterator[Any]:
    model, tokenizer = loaded
    other = TokenizerWrapper(deepcopy(tokenizer._tokenizer), tool_parser_type="json_tools")
    other.eos_token_ids = tokenizer.eos_token_ids
    with serving((model, other)) as live:
        yield live


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_calls_come_streamed_as_whole(caller: Any, choice: Any) -> None:
    ask = {**ASK, "tool_choice": choice, "parallel_tool_calls": False, "seed": 4}
    (whole,) = caller.openai.chat.completions.create(**ask, temperature=1.0).choices
    (call,) = whole.message.tool_calls
    assert whole.finish_reason == "tool_calls"
    assert not whole.message.content
    if choice is NAMED or call.function.name == "weather":
        assert call.function.name == "weather"
        jsonschema.validate(json.loads(call.function.arguments), PARAMETERS)
    name, arguments = "", ""
    for chunk in caller.openai.chat.completions.create(**ask, temperature=1.0, stream=True):
        for delta in chunk.choices[0].delta.tool_calls or ():
            name += delta.function.name or ""
            arguments += delta.function.arguments or ""
    assert (name, arguments) == (call.function.name, call.function.arguments)


def test_each_of_n_answers_is_a_call(caller: Any) -> None:
    ask = {**ASK, "tools": [NOW], "tool_choice": "required", "parallel_tool_calls": False}
    choices = caller.openai.chat.completions.create(**ask, n=3, temperature=1.0, seed=1).choices
    for choice in choices:
        (call,) = choice.message.tool_calls
        assert (call.function.name, call.function.arguments) == ("now", "{}")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tool_choice": "always"}, "required"),
        ({"tool_choice": "required", "tools": None}, "no tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "other"),
    ],
)
def test_R34_what_cannot_be_forced_is_status_400(
    caller: Any, wrong: dict[str, Any], says: str
) -> None:
    answer = caller.http.post("/v1/chat/completions", json={**ASK, **wrong})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tool_choice"
    assert says in answer.json()["error"]["message"]
