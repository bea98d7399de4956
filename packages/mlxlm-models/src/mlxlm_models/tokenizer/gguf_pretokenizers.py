"""How byte-level vocabularies split text before merging, by `tokenizer.ggml.pre`.

Each name stands for regular expressions that are applied one after the other, each splitting
the pieces the ones before it left, as the models' own tokenizers and llama.cpp do.
"""

from dataclasses import dataclass

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
)
_NOT_IN_A_WORD = r" ?[^(\s|.,!?…。，、।۔،)]+"


def _words(digits: str, letters: str = r"\p{L}", contractions: str = _CONTRACTIONS) -> str:
    """The cl100k family: contractions, words, `digits`, punctuation, spaces."""
    marks = letters.removeprefix(r"\p{L}")
    return (
        rf"{contractions}|[^\r\n\p{{L}}\p{{N}}]?[{letters}]+|{digits}"
        rf"| ?[^\s\p{{L}}{marks}\p{{N}}]+[\r\n]*|{_SPACES}"
    )


@dataclass(frozen=True)
class PreTokenizer:
    splits: tuple[str, ...]
    whole_words: bool = False
    """A piece that is a token is taken as it is, without merging (`ignore_merges`)."""
    add_bos: bool = False
    """Unless the file says otherwise."""


_DEEPSEEK3 = PreTokenizer(
    (
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
        r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
    )
)
_LLAMA3 = PreTokenizer((_words(r"\p{N}{1,3}"),), whole_words=True, add_bos=True)
_WORDS_3 = PreTokenizer((_words(r"\p{N}{1,3}"),))
_WORDS_1 = PreTokenizer((_words(r"\p{N}"),))
_PLAIN_GPT2 = PreTokenizer((_GPT2,))
_DIGITS_GPT2 = PreTokenizer((r"\p{N}", _GPT2))

_FAMILIES: dict[PreTokenizer, str] = {
    PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")): "default",
    _PLAIN_GPT2: (
        "gpt-2 phi-2 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum exaone4"
    ),
    _DIGITS_GPT2: "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    _LLAMA3: "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
    _WORDS_3: "dbrx smaug-bpe glm4 chatglm-bpe",
    _WORDS_1: "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2",
    PreTokenizer((_words(r"\p{N}", r"\p{L}\p{M}"),)): "qwen35",
    _DEEPSEEK3: "deepseek-v3 hunyuan-dense joyai-llm",
    PreTokenizer(
        (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")
    ): "deepseek-coder",
    PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")): "falcon",
    PreTokenizer((_NOT_IN_A_WORD,)): "bloom poro-chat gpt3-finnish",
    PreTokenizer((_NOT_IN_A_WORD, r"\p{N}")): "viking",
    PreTokenizer(
        (rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",),
        whole_words=True,
        add_bos=True,
    ): "tekken",
    PreTokenizer(
        (
            rf"{_CASED[0]}{_CONTRACTIONS}?|{_CASED[1]}{_CONTRACTIONS}?"
            rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",
        )
    ): "gpt-4o llama4 kanana2 minimax-m2",
    PreTokenizer(
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ): "bailingmoe bailingmoe2 llada-moe",
    PreTokenizer(
        (
            rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
            rf"| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",
        )
    ): "seed-coder",
}

PRE_TOKENIZERS = {name: family for family, names in _FAMILIES.items() for name in names.split()}
