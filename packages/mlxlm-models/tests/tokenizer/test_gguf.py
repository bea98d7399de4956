from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.errors import TokenizerError
from mlxlm_models.tokenizer.detokenizers.byte_level import BYTE_OF_CHARACTER
from mlxlm_models.tokenizer.gguf import merges_by_score, tokenizer_from_gguf
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello, we can use", [19556, 28, 392, 416, 722]),
        ("The capital of France is", [504, 3575, 282, 4649, 314]),
        ("Hello world! 123", [19556, 905, 17, 216, 33, 34, 35]),
        ("Café déjà vu.", [51, 1939, 2756, 32564, 90, 16739, 386, 101, 30]),
        ("  multiple   spaces", [216, 2701, 256, 5600]),
        ("\n", [198]),
    ],
)
def test_smollm2_ids(smol: TokenizerWrapper, text: str, ids: list[int]) -> None:
    """Ids that other implementations give."""
    assert smol.encode(text) == ids


def test_digits_stand_alone(smol: TokenizerWrapper) -> None:
    digits = [smol.get_vocab()[digit] for digit in "2024"]
    assert smol.encode("2024") == digits


def test_special_tokens_are_one_id(smol: TokenizerWrapper) -> None:
    assert smol.encode("<|im_start|><|im_end|><|endoftext|>") == [1, 2, 0]
    assert smol.decode([1, 2, 0], skip_special_tokens=True) == ""
    assert (smol.bos_token_id, smol.eos_token_id, smol.pad_token_id) == (1, 2, 2)


@settings(deadline=None, max_examples=80)
@given(text=ANY_TEXT)
def test_smollm2_round_trip(smol: TokenizerWrapper, text: str) -> None:
    """But for the few bytes that its vocabulary lacks."""
    if smol.decode(smol.encode(text)) == text:
        return
    vocabulary = smol.get_vocab()
    missing = {byte for character, byte in BYTE_OF_CHARACTER.items() if character not in vocabulary}
    assert missing & set(text.encode())


@settings(deadline=None, max_examples=100)
@given(text=ANY_TEXT | st.text(alphabet="the quick brown she's,. 12é語"))
def test_sentencepiece_ids_are_the_librarys(
    text: str, spm: TokenizerWrapper, sentencepiece_model: Any
) -> None:
    """And so is the text that comes back."""
    if "\x00" in text or "▁" in text or any(marker in text for marker in ("[INST]", "<tool>")):
        return
    ids = spm.encode(text, add_special_tokens=False)
    assert ids == sentencepiece_model.encode(text)
    assert spm.decode(ids) == text


def test_each_stretch_between_special_tokens_gets_its_space(spm: TokenizerWrapper) -> None:
    inst, tool, the = (spm.get_vocab()[token] for token in ("[INST]", "<tool>", "▁the"))
    assert spm.encode("the[INST]the<tool>the") == [1, the, inst, the, tool, the]
    assert tool not in spm.all_special_ids


def test_no_space_is_added_where_the_file_says_so(sentencepiece_metadata: dict[str, Any]) -> None:
    options = {
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": True,
    }
    tokenizer = tokenizer_from_gguf(sentencepiece_metadata | options)
    ids = tokenizer.encode(" the")
    assert ids == [tokenizer.get_vocab()["▁the"], 2]
    assert tokenizer.decode(ids[:-1]) == " the"


def test_more_ids_end_a_text(smol_metadata: dict[str, Any]) -> None:
    tokenizer = tokenizer_from_gguf(smol_metadata | {"tokenizer.ggml.eot_token_id": 0})
    assert tokenizer.eos_token_ids == {0, 2}


def test_templates_may_have_names(sentencepiece_metadata: dict[str, Any]) -> None:
    named = {"tokenizer.chat_template": "a", "tokenizer.chat_template.tool_use": "b"}
    tokenizer = tokenizer_from_gguf(sentencepiece_metadata | named)
    assert tokenizer.chat_template == {"default": "a", "tool_use": "b"}
    assert not tokenizer_from_gguf(sentencepiece_metadata).has_chat_template


def test_llama3_takes_whole_words(smol_metadata: dict[str, Any]) -> None:
    """`ignore_merges`, and BOS unless the file says otherwise."""
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": ["<bos>", "a", "b", "ab", "abab"],
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 1],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
    }
    assert tokenizer_from_gguf(metadata).encode("abab") == [0, 4]
    other = tokenizer_from_gguf(metadata | {"tokenizer.ggml.pre": "qwen2"})
    assert other.encode("abab") == [3, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.pre": "klingon"}, r"pre 'klingon' is not known.*smollm"),
        ({"tokenizer.ggml.model": "bert"}, r"model 'bert' is not supported"),
        ({"tokenizer.ggml.model": None}, r"no tokenizer\.ggml\.model"),
        ({"tokenizer.ggml.tokens": None}, r"no tokenizer\.ggml\.tokens"),
        ({"tokenizer.ggml.merges": None}, r"no tokenizer\.ggml\.merges"),
        ({"tokenizer.ggml.token_type": [1]}, r"1 entries for 49152 tokens"),
        ({"tokenizer.ggml.eos_token_id": 49152}, r"eos_token_id is 49152"),
        ({"tokenizer.ggml.merges": ["a zzzz"]}, r"merges"),
    ],
)
def test_what_is_wrong_is_named(
    smol_metadata: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    metadata = {k: v for k, v in (smol_metadata | change).items() if v is not None}
    with pytest.raises(TokenizerError, match=message):
        tokenizer_from_gguf(metadata)


def test_scores_must_match() -> None:
    with pytest.raises(TokenizerError, match="scores"):
        merges_by_score(["a"], [1], [])


def test_a_missing_pre_is_warned_about(
    smol_metadata: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer_from_gguf({k: v for k, v in smol_metadata.items() if k != "tokenizer.ggml.pre"})
    assert "tokenizer.ggml.pre" in caplog.text
