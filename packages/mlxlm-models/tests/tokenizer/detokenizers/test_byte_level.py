from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.tokenizer.detokenizers.byte_level import (
    BYTE_OF_CHARACTER,
    ByteLevelDetokenizer,
    BytePieces,
)
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

CHARACTER_OF_BYTE = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}
HARD_TEXTS = [
    "👩\u200d👩\u200d👧 👍🏽 🇩🇪",
    "你好，世界",
    "ภาษาไทย हिन्दी",
    "é e\u0301 \u200d\ufeff",
    "\r\n\t\0",
]


@pytest.fixture(scope="module")
def vocabulary(smol: TokenizerWrapper) -> dict[str, int]:
    return smol.get_vocab()


def test_alphabet_covers_each_byte() -> None:
    assert sorted(BYTE_OF_CHARACTER.values()) == list(range(256))


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_no_character_is_split(smol: TokenizerWrapper, check_stream: Any, text: str) -> None:
    segments = check_stream(smol, smol.encode(text))
    assert "".join(segments) == text
    assert not any("\ufffd" in segment for segment in segments)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_ids_add_up_to_decode(
    data: st.DataObject, smol: TokenizerWrapper, check_stream: Any
) -> None:
    """Random ids, special tokens and ids beyond the vocabulary included."""
    check_stream(smol, data.draw(st.lists(st.integers(0, len(smol) + 5))))


@settings(deadline=None, max_examples=120)
@given(stream=st.one_of(st.binary(), st.text().map(str.encode)), text=st.text(max_size=5))
def test_any_bytes_add_up_to_decode(
    stream: bytes, text: str, smol: TokenizerWrapper, vocabulary: dict[str, int], check_stream: Any
) -> None:
    """One token per byte, valid UTF-8 or not, with special tokens and text in between."""
    ids = [vocabulary[CHARACTER_OF_BYTE[b]] for b in stream if CHARACTER_OF_BYTE[b] in vocabulary]
    check_stream(smol, [*ids, vocabulary["<|im_end|>"], *smol.encode(text), *ids])


def test_invalid_bytes_come_as_soon_as_they_are_certain(
    smol: TokenizerWrapper, vocabulary: dict[str, int], check_stream: Any
) -> None:
    ids = [vocabulary[CHARACTER_OF_BYTE[byte]] for byte in (0xE4, 0xBD, 0xE4)]
    segments = check_stream(smol, [*ids, vocabulary["a"]])
    assert segments == ["", "", "\ufffd", "\ufffda", ""]


def test_added_token_in_ordinary_text() -> None:
    pieces = BytePieces({0: "two words", 1: "Ġx", 2: None}.get)
    detokenizer = ByteLevelDetokenizer(pieces)
    for token in (0, 1, 2):
        detokenizer.add_token(token)
    assert detokenizer.text == "two words x"
