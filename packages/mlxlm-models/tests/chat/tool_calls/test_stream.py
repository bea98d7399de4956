import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.chat.deltas import TextDelta
from mlxlm_models.chat.tool_calls.call import ToolCall, Tools
from mlxlm_models.chat.tool_calls.form import SHORT, Form, Read
from mlxlm_models.chat.tool_calls.formats import TOOL_PARSERS
from mlxlm_models.chat.tool_calls.parser import ToolParser
from mlxlm_models.chat.tool_calls.stream import (
    ArgumentsDelta,
    ToolCallBegin,
    ToolCallStream,
    ToolCallText,
    read_tool_calls,
)

from .conftest import CALLS, NAKED, TEXT, TOOLS

EXPECTED = [("f", {"n": 1, "s": TEXT}), ("g", {})]
PARSERS = pytest.mark.parametrize("name", TOOL_PARSERS)


def streamed(pieces: Sequence[str], parser: ToolParser) -> ToolCallText:
    """Put deltas together as a client does."""
    stream = ToolCallStream(parser, TOOLS)
    events = [event for piece in pieces for event in stream.feed(piece)] + stream.close()
    text, begins, arguments = "", [], []
    for event in events:
        match event:
            case TextDelta():
                text += event.text
            case ToolCallBegin():
                assert event.index == len(begins)
                begins.append(event)
                arguments.append("")
            case ArgumentsDelta():
                assert event.index == len(begins) - 1
                arguments[event.index] += event.json
    calls = [
        ToolCall(begin.name, json.loads(argument), begin.id)
        for begin, argument in zip(begins, arguments, strict=True)
    ]
    return ToolCallText(text, tuple(calls))


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def test_each_parser_has_a_sample() -> None:
    assert set(CALLS) == set(TOOL_PARSERS)


@PARSERS
def test_parallel_calls(name: str) -> None:
    answer = read_tool_calls(CALLS[name], TOOL_PARSERS[name], TOOLS)
    assert [(call.name, call.arguments) for call in answer.calls] == EXPECTED
    assert answer.text == ""


@PARSERS
def test_each_character_by_itself(name: str) -> None:
    text = CALLS[name] if name in NAKED else f"Let me see. \n\n{CALLS[name]}\n"
    answer = streamed(list(text), TOOL_PARSERS[name])
    assert [(call.name, call.arguments) for call in answer.calls] == EXPECTED
    assert answer.text == ("" if name in NAKED else "Let me see.")


@PARSERS
@settings(max_examples=20)
@given(data=st.data())
def test_any_text_and_split(name: str, data: st.DataObject) -> None:
    parser = TOOL_PARSERS[name]
    sample = CALLS[name]
    markers = [*(form.start for form in parser.forms), *parser.silent, parser.end]
    tags = re.findall(r"<[^<>\s]*>|\[[A-Z_]+\]|functions\.|call:", sample)
    part = st.one_of(
        st.sampled_from([sample, *markers, *tags, *'{}[]"\\; \n', "f", "12", "<", "name"]),
        st.integers(0, len(sample)).map(lambda n: sample[:n]),
        st.integers(0, len(sample)).map(lambda n: sample[n:]),
        st.text(max_size=4),
    )
    text = "".join(data.draw(st.lists(part, max_size=6)))
    places = data.draw(st.lists(st.integers(0, 2000), max_size=12))
    whole = read_tool_calls(text, parser, TOOLS)
    assert streamed(cut(text, places), parser) == whole
    assert streamed(list(text), parser) == whole


@PARSERS
@settings(max_examples=10)
@given(text=st.text(alphabet="abc .\n"))
def test_text_without_calls_comes_back_as_it_is(name: str, text: str) -> None:
    assert read_tool_calls(text, TOOL_PARSERS[name]) == ToolCallText(text, ())


@PARSERS
def test_a_call_that_breaks_off_comes_back_as_text(name: str) -> None:
    sample = CALLS[name]
    text = sample[: sample.index("q")]
    answer = read_tool_calls(text, TOOL_PARSERS[name], TOOLS)
    assert answer.calls == ()
    assert "</tool_call>" in answer.text


def test_a_malformed_call_comes_back_and_the_next_is_read() -> None:
    bad, good = "<tool_call>{'name': oh}</tool_call>", '<tool_call>{"name": "g"}</tool_call>'
    answer = read_tool_calls(f"{bad} {good}", TOOL_PARSERS["json_tools"])
    assert answer == ToolCallText(bad, (ToolCall("g", {}),))


def test_a_call_needs_no_end_marker_at_the_end_of_the_answer() -> None:
    answer = read_tool_calls('<tool_call>{"name": "g"}', TOOL_PARSERS["json_tools"])
    assert answer == ToolCallText("", (ToolCall("g", {}),))


def test_text_is_given_out_at_once() -> None:
    stream = ToolCallStream(TOOL_PARSERS["json_tools"])
    assert stream.feed("Hello <to") == [TextDelta("Hello")]
    assert stream.feed("p> you ") == [TextDelta(" <top> you")]
    assert stream.feed('<tool_call>{"name": "g"}</tool_call>') == [
        ToolCallBegin(0, "g"),
        ArgumentsDelta(0, "{}"),
    ]
    assert stream.calls == (ToolCall("g", {}),)
    assert stream.close() == stream.close() == []
    with pytest.raises(ValueError, match="closed"):
        stream.feed("x")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("One.\n\n{}\nTwo. ", "One.\n\nTwo. "),
        ("One.{}\nTwo.", "One.\nTwo."),
        ("One.{}Two.", "One.Two."),
        ("\n{}\nOne.", "One."),
        ("\nOne. {} {}\n\n", "\nOne."),
        ("é {}{}😀{} ü", "é 😀 ü"),
    ],
)
def test_text_before_between_and_after_calls_is_kept(answer: str, text: str) -> None:
    full = answer.replace("{}", '<tool_call>{"name": "g"}</tool_call>')
    parser = TOOL_PARSERS["json_tools"]
    expected = ToolCallText(text, (ToolCall("g", {}),) * answer.count("{}"))
    assert read_tool_calls(full, parser) == streamed(list(full), parser) == expected


@pytest.mark.parametrize("name", ["json_tools", "qwen3_coder", "mistral", "gpt_oss"])
def test_a_long_call_is_not_read_again_with_each_piece(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = TOOL_PARSERS[name].forms[-1]
    read = type(form).read
    calls = []

    def counted(self: Form, text: str, final: bool, tools: Tools | None) -> Read | None:
        calls.append(len(text))
        return read(self, text, final, tools)

    monkeypatch.setattr(type(form), "read", counted)
    text = CALLS[name].replace("é", "é" * 20_000)
    answer = streamed([text[i : i + 4] for i in range(0, len(text), 4)], TOOL_PARSERS[name])
    assert [len(call.arguments) for call in answer.calls] == [2, 0]
    assert len(calls) < 2 * SHORT
    assert sum(size > SHORT for size in calls) < 10


def test_several_objects_in_one_block() -> None:
    text = '<tool_calls>\n{"name": "f"}\n{"name": "g"}\n</tool_calls>'
    calls = read_tool_calls(text, TOOL_PARSERS["hunyuan"]).calls
    assert [call.name for call in calls] == ["f", "g"]


def test_an_answer_in_json_is_no_call_of_an_unknown_function() -> None:
    text = '{"name": "Ann", "arguments": {}}'
    parser = TOOL_PARSERS["llama3_json"]
    assert read_tool_calls(text, parser, TOOLS) == ToolCallText(text, ())
    assert len(read_tool_calls(text, parser).calls) == 1


def test_harmony_drops_headers() -> None:
    text = (
        "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>final"
        "<|message|> Done.<|return|>"
    )
    assert read_tool_calls(text, TOOL_PARSERS["gpt_oss"]) == ToolCallText("Wait.\n\nDone.", ())


def test_a_parser_has_no_marker_that_begins_like_another() -> None:
    for parser in TOOL_PARSERS.values():
        markers = [*(form.start for form in parser.forms), *parser.silent]
        for marker in markers:
            assert [m for m in markers if m.startswith(marker)] == [marker]
