import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_generate import InvalidOption, TextPiece, TextSpan, TextStateMachine

THINK = TextSpan("reasoning", "<think>", "</think>")
TOOL = TextSpan("tool", "<tool>", "</tool>")
CALLS = TextSpan("calls", "[CALLS]", None)
SPANS = [THINK, TOOL, CALLS]


def parted(text: str, state: str = "text") -> list[tuple[str, str]]:
    """Split a whole text at its markers, with a regular expression for each state."""
    ends = {"reasoning": "</think>", "tool": "</tool>", "calls": None}
    starts = {"<think>": "reasoning", "<tool>": "tool", "[CALLS]": "calls"}
    parts = []
    while True:
        if state == "text":
            pattern = "|".join(map(re.escape, starts))
        else:
            pattern = re.escape(ends[state] or "") if ends[state] else r"(?!)"
        found = re.search(pattern, text)
        parts.append((state, text[: found.start()] if found else text))
        if found is None:
            return [(s, t) for s, t in parts if t]
        text = text[found.end() :]
        state = starts[found.group()] if state == "text" else "text"


def merged(pieces: list[TextPiece], cuts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join neighbours of one state, in both, as they can't be told apart."""
    out: list[tuple[str, str]] = []
    for state, text in [(p.state, p.text) for p in pieces] or cuts:
        if out and out[-1][0] == state:
            out[-1] = (state, out[-1][1] + text)
        else:
            out.append((state, text))
    return out


Pieces = st.lists(
    st.sampled_from(
        ["a", " é", "🙂", "<", "<t", "hink>", "</", "think>", "<think>", "</think>", "<tool>"]
        + ["</tool>", "</to", "ol>", "[CAL", "LS]", "[CALLS]"]
    ),
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@given(Pieces, st.sampled_from(["text", "reasoning", "tool", "calls"]))
def test_streamed_text_is_parted_like_the_whole(pieces: list[str], state: str) -> None:
    machine = TextStateMachine(SPANS, state)
    got: list[TextPiece] = []
    for piece in pieces:
        got += machine.add(piece)
    got += machine.finish()
    assert merged(got, []) == merged([], parted("".join(pieces), state))


def test_text_is_not_held_back_longer_than_a_marker_may_begin() -> None:
    machine = TextStateMachine([THINK])
    assert machine.add("a<thi") == [TextPiece("text", "a")]
    assert machine.add("s") == [TextPiece("text", "<this")]
    assert machine.add("<think>so") == [TextPiece("reasoning", "so")]
    assert machine.state == "reasoning"
    assert machine.entered == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: TextSpan("a", "", "b"),
        lambda: TextSpan("a", "b", ""),
        lambda: TextSpan("text", "a", "b"),
        lambda: TextStateMachine([THINK, THINK]),
        lambda: TextStateMachine([THINK], "tool"),
    ],
)
def test_spans_that_make_no_sense_are_errors(make: object) -> None:
    with pytest.raises(InvalidOption):
        make()  # type: ignore[operator]
