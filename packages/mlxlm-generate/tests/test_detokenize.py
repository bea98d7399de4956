from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlxlm_generate import WindowDetokenizer

MIXED = "né€ 😀 日本語\n\u200dи́ 'tis  "


class Bytes:
    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


class Words:
    """SentencePiece's way: words carry their space, which the first one loses; bytes fall back.

    A run of byte tokens that is not UTF-8 throughout is one replacement for each.
    """

    words = ("▁a", "▁no", "n", "▁", ".", "é", "<s>", "▁don", "'t")

    def id_to_token(self, token: int) -> str:
        return f"<0x{token:02X}>" if token < 256 else self.words[token - 256]

    def decode(self, ids: list[int]) -> str:
        text, run = "", bytearray()

        def flush() -> str:
            try:
                return run.decode()
            except UnicodeDecodeError:
                return "\ufffd" * len(run)
            finally:
                run.clear()

        for token in ids:
            if token < 256:
                run.append(token)
            elif token != 262:  # <s> is skipped
                text += flush() + self.words[token - 256].replace("▁", " ")
        text += flush()
        return text.removeprefix(" ")


class Cleaned:
    """Words joined by spaces, some of which are then taken out: the Hugging Face clean-up."""

    words = ("do", "n", "'", "t", "s", "it", ".", ",", "!", "ve", "?", "'m", "n't", "re")
    pairs = (
        (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"),
        (" n't", "n't"), (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
    )  # fmt: skip

    def decode(self, ids: list[int]) -> str:
        text = " ".join(self.words[i] for i in ids)
        for old, new in self.pairs:
            text = text.replace(old, new)
        return text


def streamed(tokenizer: Any, ids: list[int]) -> list[str]:
    detokenizer = WindowDetokenizer(tokenizer)
    pieces = []
    for token in ids:
        detokenizer.add_token(token)
        pieces.append(detokenizer.last_segment)
    detokenizer.finalize()
    pieces.append(detokenizer.last_segment)
    assert detokenizer.text == "".join(pieces)
    assert detokenizer.tokens == ids
    return pieces


@settings(max_examples=150, deadline=None)
@given(ids=st.lists(st.integers(0, 255), max_size=120))
def test_any_bytes_give_what_decode_gives(ids: list[int]) -> None:
    assert "".join(streamed(Bytes(), ids)) == Bytes().decode(ids)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.sampled_from(MIXED), max_size=80))
@example(text=MIXED * 6)
def test_no_piece_has_half_a_character(text: str) -> None:
    pieces = streamed(Bytes(), list(text.encode()))
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


@settings(max_examples=150, deadline=None)
@given(
    ids=st.lists(
        st.one_of(
            st.integers(256, 264), st.integers(256, 264), st.sampled_from([0xE2, 0x82, 0xAC, 65])
        ),
        max_size=120,
    )
)
@example(ids=[0x41, 262, 0xE2, 0xE2])
def test_words_with_byte_fallback(ids: list[int]) -> None:
    assert "".join(streamed(Words(), ids)) == Words().decode(ids)


@settings(max_examples=150, deadline=None)
@given(ids=st.lists(st.integers(0, len(Cleaned.words) - 1), max_size=80))
def test_clean_up_of_spaces(ids: list[int]) -> None:
    assert "".join(streamed(Cleaned(), ids)) == Cleaned().decode(ids)


def test_text_comes_as_soon_as_it_is_settled() -> None:
    assert streamed(Bytes(), list(b"ab cd")) == ["a", "b", "", " c", "d", ""]


def test_long_text_is_not_decoded_again_and_again() -> None:
    lengths: list[int] = []

    class Spy(Bytes):
        def decode(self, ids: list[int]) -> str:
            lengths.append(len(ids))
            return super().decode(ids)

    streamed(Spy(), list(b"word " * 200))
    assert max(lengths) < 50


def test_reset_forgets() -> None:
    detokenizer = WindowDetokenizer(Bytes())
    detokenizer.add_token(65)
    detokenizer.reset()
    detokenizer.add_token(66)
    detokenizer.finalize()
    assert detokenizer.text == detokenizer.last_segment == "B"
    assert detokenizer.tokens == [66]


@pytest.mark.parametrize("bits", [b"\xf0\x9f\x98", b"\xff\xfe", b"a\xe2\x82"])
def test_what_stays_broken_comes_at_the_end(bits: bytes) -> None:
    *before, last = streamed(Bytes(), list(bits))
    assert "\ufffd" not in "".join(before)
    assert last == bits.decode(errors="replace").lstrip("a")
