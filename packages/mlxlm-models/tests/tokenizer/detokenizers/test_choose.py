"""Random token streams under every kind of decoder: the choice must keep the promise."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.tokenizer.backend import import_transformers
from mlxlm_models.tokenizer.detokenizers.byte_level import ByteLevelDetokenizer
from mlxlm_models.tokenizer.detokenizers.choose import detokenizer_factory
from mlxlm_models.tokenizer.detokenizers.decoded import WholeTextDetokenizer, WindowDetokenizer
from mlxlm_models.tokenizer.detokenizers.sentencepiece import SentencePieceDetokenizer
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models

PIECES = [
    "<unk>",
    "▁",
    "▁▁",
    "a",
    "▁b",
    "##c",
    "##",
    "c</w>",
    "</w>",
    "Ġd",
    "é",
    "Ã",
    "©",
    " ",
    "  ",
    ".",
] + ["ä½", "ł", "�", "n't", "'", "s", "<0x41>", "<0xE4>", "<0xBD>", "<0xA0>", "<0x+A>", "<0xZZ>"]
REPLACE = decoders.Replace("▁", " ")
LLAMA = decoders.Sequence(
    [REPLACE, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
GEMMA = decoders.Sequence([REPLACE, decoders.ByteFallback(), decoders.Fuse()])
DECODERS: dict[str, tuple[Any, type]] = {
    "none": (None, WindowDetokenizer),
    "byte level": (decoders.ByteLevel(), ByteLevelDetokenizer),
    "nested": (
        decoders.Sequence([decoders.Sequence([decoders.ByteLevel()])]),
        ByteLevelDetokenizer,
    ),
    "llama": (LLAMA, SentencePieceDetokenizer),
    "gemma": (GEMMA, SentencePieceDetokenizer),
    "metaspace": (decoders.Metaspace(), SentencePieceDetokenizer),
    "metaspace first": (decoders.Metaspace(prepend_scheme="first"), SentencePieceDetokenizer),
    "metaspace never": (decoders.Metaspace(prepend_scheme="never"), SentencePieceDetokenizer),
    "metaspace bytes": (
        decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback(), decoders.Fuse()]),
        SentencePieceDetokenizer,
    ),
    "strip two": (
        decoders.Sequence([REPLACE, decoders.Fuse(), decoders.Strip(" ", 2, 0)]),
        SentencePieceDetokenizer,
    ),
    "wordpiece": (decoders.WordPiece(), WindowDetokenizer),
    "end of word": (decoders.BPEDecoder(), WindowDetokenizer),
    "ctc": (decoders.CTC(pad_token="a", word_delimiter_token="▁"), WindowDetokenizer),
    "regex": (decoders.Replace(Regex("[a▁]+"), "x"), WindowDetokenizer),
    "strip each": (decoders.Sequence([REPLACE, decoders.Strip(" ", 1, 0)]), WindowDetokenizer),
    "bytes last": (
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
        WholeTextDetokenizer,
    ),
    "fused regex": (
        decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex("a+"), "b")]),
        WholeTextDetokenizer,
    ),
}


def build(decoder: Any, **options: Any) -> TokenizerWrapper:
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    if decoder is not None:
        backend.decoder = decoder
    backend.add_special_tokens([AddedToken("<|end|>", special=True)])
    backend.add_tokens([AddedToken(" ▁Ġ x", normalized=False)])
    fast = import_transformers().PreTrainedTokenizerFast
    return TokenizerWrapper(fast(tokenizer_object=backend, unk_token="<unk>", **options))


@pytest.mark.parametrize("cleans", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_any_decoder_keeps_the_promise(name: str, cleans: bool, check_stream: Any) -> None:
    decoder, expected = DECODERS[name]
    tokenizer = build(decoder, clean_up_tokenization_spaces=cleans)
    detokenizer = tokenizer.detokenizer
    assert isinstance(getattr(detokenizer, "_inner", detokenizer), expected)

    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.integers(0, len(PIECES) + 4), max_size=25))
    def promise(ids: list[int]) -> None:
        check_stream(tokenizer, ids)

    promise()


def test_stripping_the_end_is_not_streamed() -> None:
    tokenizer = build(decoders.Sequence([decoders.Fuse(), decoders.Strip(".", 0, 1)]))
    assert isinstance(tokenizer.detokenizer, WholeTextDetokenizer)


def test_own_decoding_is_not_guessed(check_stream: Any) -> None:
    fast = import_transformers().PreTrainedTokenizerFast

    class Shouting(fast):  # type: ignore[misc, valid-type]
        def _decode(self, *args: Any, **kwargs: Any) -> str:
            return str(super()._decode(*args, **kwargs)).upper()

    backend = build(LLAMA).backend_tokenizer
    tokenizer = TokenizerWrapper(Shouting(tokenizer_object=backend, unk_token="<unk>"))
    assert isinstance(tokenizer.detokenizer, WindowDetokenizer)
    assert "".join(check_stream(tokenizer, [3, 4, 3])) == "A BA"


def test_own_clean_up_is_left_to_the_tokenizer(check_stream: Any) -> None:
    fast = import_transformers().PreTrainedTokenizerFast

    class Reversing(fast):  # type: ignore[misc, valid-type]
        def clean_up_tokenization(self, text: str) -> str:
            return text[::-1]

    backend = build(LLAMA).backend_tokenizer
    tokenizer = Reversing(
        tokenizer_object=backend, unk_token="<unk>", clean_up_tokenization_spaces=True
    )
    assert isinstance(detokenizer_factory(tokenizer)(), WholeTextDetokenizer)
    assert "".join(check_stream(TokenizerWrapper(tokenizer), [3, 4])) == "b a"


def test_a_later_change_of_clean_up_is_seen(check_stream: Any) -> None:
    tokenizer = build(decoders.Fuse())
    dot = PIECES.index(".")
    space = PIECES.index(" ")
    assert "".join(check_stream(tokenizer, [space, dot])) == " ."
    tokenizer.clean_up_tokenization_spaces = True
    assert "".join(check_stream(tokenizer, [space, dot])) == "."
