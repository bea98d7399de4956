from collections.abc import Sequence

import pytest
from mlxlm_models.tokenizer.detokenizers.decoded import WholeTextDetokenizer, WindowDetokenizer


def utf8(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


def test_half_a_character_waits() -> None:
    detokenizer = WindowDetokenizer(utf8, lambda _: True)
    segments = []
    for byte in "é好".encode():
        detokenizer.add_token(byte)
        segments.append(detokenizer.last_segment)
    assert segments == ["", "é", "", "", "好"]


def test_the_window_stays_small() -> None:
    decoded = 0

    def counting(ids: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return utf8(ids)

    detokenizer = WindowDetokenizer(counting, lambda _: True)
    for byte in b"abc\xff" * 1000:
        detokenizer.add_token(byte)
    assert decoded < 20 * 4000
    detokenizer.reset()
    decoded = 0
    for _ in range(4000):  # never certain: held to the end, without being decoded each time
        detokenizer.add_token(0xFF)
    assert decoded < 20 * 4000
    detokenizer.finalize()
    assert detokenizer.text == "\ufffd" * 4000


def test_a_decoder_that_contradicts_itself_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    detokenizer = WindowDetokenizer(lambda ids: "x" if len(ids) > 6 else "a" * len(ids), bool)
    for token in range(1, 9):
        detokenizer.add_token(token)
    detokenizer.finalize()
    assert detokenizer.text == "a" * 8
    assert "differently" in caplog.text


def test_whole_text_comes_once() -> None:
    detokenizer = WholeTextDetokenizer(utf8)
    for byte in b"abc":
        detokenizer.add_token(byte)
        assert detokenizer.last_segment == ""
    detokenizer.finalize()
    assert detokenizer.last_segment == "abc"
    detokenizer.finalize()
    assert detokenizer.text == "abc"
