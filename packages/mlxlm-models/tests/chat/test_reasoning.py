from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.chat.deltas import ReasoningDelta, TextDelta
from mlxlm_models.chat.reasoning import ReasoningStream, ReasoningText, read_reasoning
from mlxlm_models.chat.thinking import MARKERS, Thinking
from mlxlm_models.chat.tool_calls.formats import TOOL_PARSERS
from mlxlm_models.chat.tool_calls.stream import read_tool_calls

THINK = Thinking("<think>", "</think>", switchable=True)
HARMONY = Thinking("<|channel|>analysis<|message|>", "<|end|>", switchable=False)
UNTIL = ("<tool_call>",)


def streamed(pieces: Sequence[str], thinking: Thinking, *, opened: bool) -> ReasoningText:
    stream = ReasoningStream(thinking, opened=opened, until=UNTIL)
    reasoning = text = ""
    for event in [event for piece in pieces for event in stream.feed(piece)] + stream.close():
        match event:
            case ReasoningDelta():
                reasoning += event.text
            case TextDelta():
                text += event.text
    return ReasoningText(reasoning, text)


@pytest.mark.parametrize(
    ("answer", "opened", "reasoning", "text"),
    [
        ("<think>\nWhy? \n</think>\n\nSo.", False, "Why?", "So."),
        ("Why?\n</think>\n\nSo. ", True, "Why?", "So. "),
        ("<think>\n\n</think>\n\nSo.", False, "", "So."),
        ("\n So.\n", False, "", "\n So.\n"),
        ("Say <think> and </think>.", False, "", "Say <think> and </think>."),
        ("a</think>b<think>c</think>d", True, "a", "b<think>c</think>d"),
        ("<think>breaks off ", False, "breaks off", ""),
        ("breaks off </thi", True, "breaks off </thi", ""),
        ("<thi", False, "", "<thi"),
        ("<think>I call <tool_call>x", False, "I call", "<tool_call>x"),
        ("<think>a</think>b<tool_call>x", False, "a", "b<tool_call>x"),
        ("<think>a <think> b</think>c", False, "a <think> b", "c"),
        ("", True, "", ""),
    ],
)
def test_what_is_reasoning(answer: str, opened: bool, reasoning: str, text: str) -> None:
    expected = ReasoningText(reasoning, text)
    assert read_reasoning(answer, THINK, opened=opened, until=UNTIL) == expected
    assert streamed(list(answer), THINK, opened=opened) == expected


@settings(max_examples=200)
@given(data=st.data())
def test_any_text_and_split(data: st.DataObject) -> None:
    start, end = data.draw(st.sampled_from(MARKERS))
    thinking = Thinking(start, end, switchable=False)
    opened = data.draw(st.booleans())
    part = st.one_of(
        st.sampled_from([start, end, *UNTIL, " ", "\n", "é😀", "<", "<|", "</", "[", "a"]),
        st.integers(0, 12).map(lambda n: start[:n]),
        st.text(max_size=3),
    )
    pieces = data.draw(st.lists(part, max_size=12))
    whole = read_reasoning("".join(pieces), thinking, opened=opened, until=UNTIL)
    assert streamed(pieces, thinking, opened=opened) == whole
    assert streamed(list("".join(pieces)), thinking, opened=opened) == whole


@given(text=st.text())
def test_text_without_reasoning_comes_back_as_it_is(text: str) -> None:
    assert read_reasoning("." + text, THINK) == ReasoningText("", "." + text)


def test_text_is_given_out_at_once() -> None:
    stream = ReasoningStream(THINK)
    assert stream.feed("<thi") == []
    assert not stream.thinking
    assert stream.feed("nk>Hm </") == [ReasoningDelta("Hm")]
    assert stream.thinking
    assert stream.feed("think>\n\nYes </think>") == [TextDelta("Yes </think>")]
    assert not stream.thinking
    assert stream.close() == stream.close() == []
    with pytest.raises(ValueError, match="closed"):
        stream.feed("x")


def test_channels_may_come_again() -> None:
    answer = (
        "<|channel|>analysis<|message|>Weather?<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look.<|end|><|start|>assistant<|channel|>analysis<|message|>Now call.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"
    )
    parted = read_reasoning(answer, HARMONY)
    assert parted.reasoning == "Weather?\n\nNow call."
    rest = read_tool_calls(parted.text, TOOL_PARSERS["gpt_oss"])
    assert rest.text == "I look."
    assert [call.name for call in rest.calls] == ["f"]
