from types import SimpleNamespace
from typing import Any

import pytest
from mlxlm_generate import WindowDetokenizer
from mlxlm_generate.tokenizer import encode, eos_token_ids, streaming_detokenizer


class Special:
    """Adds token 1 in front unless told not to, as transformers' tokenizers do."""

    bos_token = "<s>"

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [1, *text.encode()] if add_special_tokens else list(text.encode())


def test_special_tokens_unless_the_text_has_them() -> None:
    assert encode(Special(), "a") == [1, 97]  # type: ignore[arg-type]
    assert encode(Special(), "<s>a") == list(b"<s>a")  # type: ignore[arg-type]


def test_plain_tokenizer_gets_the_text_alone(tokenizer: Any) -> None:
    assert encode(tokenizer, "hi") == [104, 105]


def test_encoding_objects_have_ids() -> None:
    bare: Any = SimpleNamespace(encode=lambda text: SimpleNamespace(ids=[5, 6]))
    assert encode(bare, "x") == [5, 6]


def test_stops_wherever_the_tokenizer_names_them(caplog: pytest.LogCaptureFixture) -> None:
    def stops(**names: Any) -> frozenset[int]:
        return eos_token_ids(SimpleNamespace(**names))

    assert stops(eos_token_ids={1, 2}, eos_token_id=3) == {1, 2}
    assert stops(eos_token_ids=4) == {4}
    assert stops(eos_token_id=3) == {3}
    assert stops(eos_token_id=[3, 4]) == {3, 4}
    assert stops(eos_token_ids=()) == frozenset()
    assert caplog.text == ""
    assert stops() == frozenset()
    assert "max_tokens only" in caplog.text


def test_own_detokenizer_is_used_and_reset(tokenizer: Any) -> None:
    class Own(WindowDetokenizer):
        resets = 0

        def reset(self) -> None:
            super().reset()
            self.resets += 1

    tokenizer.detokenizer = own = Own(tokenizer)
    assert streaming_detokenizer(tokenizer) is own
    assert own.resets == 2  # one at its making


def test_bare_tokenizer_gets_one(tokenizer: Any) -> None:
    assert isinstance(streaming_detokenizer(tokenizer), WindowDetokenizer)
