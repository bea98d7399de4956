from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.tokenizer.detokenizers.sentencepiece import SentencePieceDetokenizer
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper


def byte_ids(tokenizer: TokenizerWrapper, data: bytes) -> list[int]:
    return [tokenizer.get_vocab()[f"<0x{byte:02X}>"] for byte in data]


@pytest.mark.parametrize("text", ["hello", " two", "👩‍👩‍👧 你好 ภาษา", "a\n\n  b", ""])
def test_round_trip(spm: TokenizerWrapper, check_stream: Any, text: str) -> None:
    segments = check_stream(spm, spm.encode(text, add_special_tokens=False))
    assert "".join(segments) == text
    assert isinstance(spm.detokenizer, SentencePieceDetokenizer)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_any_ids_add_up_to_decode(
    data: st.DataObject, spm: TokenizerWrapper, check_stream: Any
) -> None:
    check_stream(spm, data.draw(st.lists(st.integers(0, len(spm) + 3))))


@settings(deadline=None, max_examples=200)
@given(parts=st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4))))
def test_bytes_and_text_mixed_add_up_to_decode(
    parts: list[bytes | str], spm: TokenizerWrapper, check_stream: Any
) -> None:
    ids: list[int] = []
    for part in parts:
        data = part if isinstance(part, bytes) else None
        ids += byte_ids(spm, data) if data is not None else spm.encode(str(part))
    check_stream(spm, ids)


def test_a_run_of_bytes_waits_for_its_end(spm: TokenizerWrapper, check_stream: Any) -> None:
    """A run is text or one U+FFFD per byte, as a whole: a bad end spoils its good start."""
    word = spm.get_vocab()["▁the"]
    good, bad = "好".encode(), "好".encode() + b"\xe5"
    assert check_stream(spm, [*byte_ids(spm, good), word]) == ["", "", "", "好 the", ""]
    assert check_stream(spm, byte_ids(spm, bad)) == ["", "", "", "", "\ufffd" * 4]


def test_a_spoilt_run_is_not_held(spm: TokenizerWrapper, check_stream: Any) -> None:
    segments = check_stream(spm, byte_ids(spm, b"\xe5\xe5\x41"))
    assert segments == ["", "\ufffd\ufffd", "\ufffd", ""]


def test_one_space_is_taken_off_the_start_only(spm: TokenizerWrapper, check_stream: Any) -> None:
    word = spm.get_vocab()["▁the"]
    assert check_stream(spm, [word, word])[:2] == ["the", " the"]
