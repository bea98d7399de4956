from types import SimpleNamespace
from typing import Any

from mlxlm_sample import xtc_special_tokens


class Wrapped:
    """Encodes bytes, after a BOS unless told not to."""

    eos_token_ids = {300, 12, 10}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [256] * add_special_tokens + list(text.encode())


class Bare:
    def encode(self, text: str) -> Any:
        return SimpleNamespace(ids=list(text.encode()))


def test_R06_newline_and_every_eos_once_without_a_bos() -> None:
    assert xtc_special_tokens(Wrapped()) == [10, 12, 300]


def test_R06_a_single_eos_id_counts() -> None:
    tokenizer = Bare()
    tokenizer.eos_token_id = 7  # type: ignore[attr-defined]
    assert xtc_special_tokens(tokenizer) == [10, 7]


def test_R06_a_tokenizer_without_eos_gives_the_newline() -> None:
    assert xtc_special_tokens(Bare()) == [10]
    tokenizer = Bare()
    tokenizer.eos_token_id = None  # type: ignore[attr-defined]
    assert xtc_special_tokens(tokenizer) == [10]
