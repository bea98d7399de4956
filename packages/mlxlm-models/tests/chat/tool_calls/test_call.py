import json

import pytest
from mlxlm_models.chat.tool_calls.call import ToolCall, ToolCallError, make_call
from mlxlm_models.chat.tool_calls.formats import TOOL_PARSERS

from .conftest import TOOLS

# What mlx-lm 0.32.2 returns for the text between the markers.
PEER = [
    ("json_tools", '{"name":"f","arguments":{"n":1}}', {"name": "f", "arguments": {"n": 1}}),
    ("glm47", "g", {"name": "g", "arguments": {}}),
    (
        "glm47",
        "f<arg_key>n</arg_key><arg_value>1</arg_value><arg_key>s</arg_key><arg_value>12</arg_value>",
        {"name": "f", "arguments": {"n": 1, "s": "12"}},
    ),
    (
        "qwen3_coder",
        "\n<function=f>\n<parameter=n>\n1\n</parameter>\n<parameter=s>\n12\n</parameter>\n</function>\n",
        {"name": "f", "arguments": {"n": 1, "s": "12"}},
    ),
    (
        "minimax_m2",
        '<invoke name="f"><parameter name="n">1</parameter></invoke><invoke name="g"></invoke>',
        [{"name": "f", "arguments": {"n": 1}}, {"name": "g", "arguments": {}}],
    ),
    ("mistral", 'f[ARGS]{"n":1}', {"name": "f", "arguments": {"n": 1}}),
    ("mistral", '[{"name":"f","arguments":{"n":1}}]', {"name": "f", "arguments": {"n": 1}}),
    (
        "pythonic",
        '[f(n=1, s="x"), g()]',
        [{"name": "f", "arguments": {"n": 1, "s": "x"}}, {"name": "g", "arguments": {}}],
    ),
    (
        "gemma4",
        'call:f{n:1,s:<|"|>x<|"|>,l:[1,<|"|>b<|"|>],o:{k:true}}',
        {"name": "f", "arguments": {"n": 1, "s": "x", "l": [1, "b"], "o": {"k": True}}},
    ),
    (
        "function_gemma",
        "call:f{n:1,s:<escape>x<escape>}",
        {"name": "f", "arguments": {"n": 1, "s": "x"}},
    ),
    (
        "longcat",
        "f\n<longcat_arg_key>n</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>",
        {"name": "f", "arguments": {"n": 1}},
    ),
    (
        "kimi_k2",
        '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"n":1}<|tool_call_end|>',
        {"id": "functions.f:0", "name": "f", "arguments": {"n": 1}},
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), PEER)
def test_a_parser_is_called_with_what_lies_between_its_markers(
    name: str, text: str, expected: object
) -> None:
    assert TOOL_PARSERS[name](text, TOOLS) == expected


@pytest.mark.parametrize("name", TOOL_PARSERS)
def test_a_text_without_a_call_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match=rf"not a tool call as {name} writes them: 'bad'"):
        TOOL_PARSERS[name]("bad", TOOLS)


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": {"x": NaN}}',
        '{"name": "f", "arguments": {"x": 1e999}}',
        '{"name": "", "arguments": {}}',
        '{"name": "\\ud800", "arguments": {}}',
        '{"arguments": {}}',
        "[]",
        "[" * 100_000,
        '{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}",
    ],
)
def test_what_is_no_call(body: str) -> None:
    with pytest.raises(ToolCallError):
        TOOL_PARSERS["json_tools"](body)


def test_arguments_can_be_sent_as_utf8() -> None:
    call = make_call("f", '{"s": "\\ud800 é"}')
    assert json.loads(call.arguments_json.encode()) == call.arguments
    assert ToolCall("f", {"s": "é"}).arguments_json == '{"s": "é"}'


@pytest.mark.parametrize(
    "body", ["[f(x=__import__('os'))]", "[f(**{})]", "[f(1)]", "[1]", "f(x=(("]
)
def test_what_is_no_call_in_python(body: str) -> None:
    with pytest.raises(ToolCallError):
        TOOL_PARSERS["pythonic"](body)


def test_python_arguments_without_names_take_those_of_the_schema() -> None:
    assert TOOL_PARSERS["pythonic"]("f('a', -1, b=true)", TOOLS) == {
        "name": "f",
        "arguments": {"s": "a", "n": -1, "b": True},
    }


def test_attributes_are_unescaped() -> None:
    text = (
        '<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a &amp;quot; &quot;" '
        'type="string"<|sep|>12<|close|>argument<|sep|><|close|>call<|sep|>'
    )
    assert TOOL_PARSERS["kimi_k3"](text) == {"name": "f", "arguments": {'a &quot; "': "12"}}
