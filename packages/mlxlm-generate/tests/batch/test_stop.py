from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_generate import InvalidOption, StopSequenceMatcher, StopStringMatcher, StopText

LETTERS = "abé🙂"
Text = st.text(LETTERS, max_size=24)
Stops = st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=4)


def first_stop(text: Sequence[Any], stops: Sequence[Sequence[Any]]) -> tuple[int, Any] | None:
    """Where the first stop to be completed ends, and it: the longest that ends there."""
    for end in range(1, len(text) + 1):
        found = [s for s in stops if end >= len(s) and text[end - len(s) : end] == s]
        if found:
            return end, max(found, key=len)
    return None


@settings(max_examples=300, deadline=None)
@given(st.lists(Text, max_size=8), Stops)
def test_text_is_given_out_up_to_the_first_stop(pieces: list[str], stops: list[str]) -> None:
    """Wherever the pieces are cut, and nothing is held back that is no beginning of a stop."""
    text = "".join(pieces)
    found = first_stop(text, stops)
    matcher, given_out, come = StopText(stops), "", ""
    for piece in pieces:
        given_out += matcher.add(piece)
        come += piece
        if found is None or len(come) < found[0]:
            assert matcher.match is None
            held = come[len(given_out) :]
            assert come == given_out + held
            beginnings = {s[:n] for s in stops for n in range(1, len(s))}
            longest = max((b for b in beginnings if come.endswith(b)), key=len, default="")
            assert held == longest
    given_out += matcher.finish()
    if found is None:
        assert given_out == text
    else:
        end, stop = found
        assert matcher.match == stop
        assert given_out == text[: end - len(stop)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 2), max_size=20),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=4),
)
def test_tokens_end_with_the_first_sequence_completed(
    tokens: list[int], sequences: list[list[int]]
) -> None:
    found = first_stop(tokens, sequences)
    matcher = StopSequenceMatcher(sequences)
    one, other = matcher.start(), matcher.start()
    for place, token in enumerate(tokens, 1):
        match = one.advance(token)
        if found is not None and place == found[0]:
            assert match == tuple(found[1])
            break
        assert match is None
    assert matcher.start().advance(99) is None
    assert other.advance(99) is None


@settings(max_examples=100, deadline=None)
@given(Text, Stops)
def test_text_is_found_however_it_is_tokenized(
    byte_tokenizer: Any, text: str, stops: list[str]
) -> None:
    """Bytes are tokens here: characters are cut in the middle."""
    found = first_stop(text, stops)
    state = StopStringMatcher(stops, byte_tokenizer).start()
    matches = [state.advance(token) for token in byte_tokenizer.encode(text)]
    if found is None:
        assert not any(matches)
    else:
        assert next((m for m in matches if m), found[1]) == found[1]
        assert any(matches) or found[0] == len(text)


def test_text_before_the_least_of_tokens_does_not_end_the_answer_later(byte_tokenizer: Any) -> None:
    """A stop is found where it is completed, each time, and not from there on."""
    state = StopStringMatcher(["ab"], byte_tokenizer).start()
    assert [state.advance(token) for token in b"abcabc"] == [None, "ab", None, None, "ab", None]


@pytest.mark.parametrize("sequences", [[[]], ["ab"], [[1], []]])
def test_what_is_no_token_sequence_is_an_error(sequences: Any) -> None:
    with pytest.raises(InvalidOption, match="StopStringMatcher"):
        StopSequenceMatcher(sequences)


@pytest.mark.parametrize("stops", ["ab", [""], [[1]]])
def test_what_is_no_text_is_an_error(stops: Any) -> None:
    with pytest.raises(InvalidOption, match="list of strings"):
        StopText(stops)
