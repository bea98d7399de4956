import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_models.tokenizer.gguf_pretokenizers import PRE_TOKENIZERS
from tokenizers import Regex, pre_tokenizers

PUBLISHED = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""As in those models' own tokenizer.json."""


def split(name: str, text: str) -> list[str]:
    steps = [pre_tokenizers.Split(Regex(s), "isolated") for s in PRE_TOKENIZERS[name].splits]
    return [piece for piece, _ in pre_tokenizers.Sequence(steps).pre_tokenize_str(text)]


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(PUBLISHED)), st.text() | st.text(alphabet="aB'sD 12\n\r.,é\u0301"))
def test_splits_like_the_published_pattern(name: str, text: str) -> None:
    published = pre_tokenizers.Split(Regex(PUBLISHED[name]), "isolated")
    assert split(name, text) == [piece for piece, _ in published.pre_tokenize_str(text)]


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_gpt2_splits_like_tokenizers_own(text: str) -> None:
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    mine = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces = [mine.pre_tokenize_str(piece)[0][0] for piece in split("gpt-2", text)]
    assert pieces == [piece for piece, _ in own.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_each_pattern_compiles_and_loses_nothing(name: str) -> None:
    text = "Hello, wörld! it's 12345 + 你好\n\n  x(y) don't 3.14 STOP"
    assert "".join(split(name, text)) == text


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", "!"]),
        ("gpt-2", ["It", "'s", " 1234", "!"]),
        ("llama-bpe", ["It", "'s", " ", "123", "4", "!"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", "!"]),
        ("gpt-4o", ["It's", " ", "123", "4", "!"]),
        ("tekken", ["It", "'s", " ", "1", "2", "3", "4", "!"]),
        ("falcon", ["It", "'", "s", " ", "123", "4", "!"]),
        ("deepseek-v3", ["It", "'s", " ", "123", "4", "!"]),
    ],
)
def test_how_families_differ(name: str, pieces: list[str]) -> None:
    assert split(name, "It's 1234!") == pieces
