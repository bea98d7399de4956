from typing import Any

from mlxlm_generate import BareTokenizer, Detokenizer, Model, Tokenizer, WindowDetokenizer


def test_what_an_application_brings_fits(model: Any, tokenizer: Any) -> None:
    typed: Model = model
    assert len(typed.layers) > 0
    assert isinstance(tokenizer, Tokenizer)
    assert isinstance(tokenizer, BareTokenizer)
    assert isinstance(WindowDetokenizer(tokenizer), Detokenizer)


def test_what_lacks_a_method_does_not() -> None:
    assert not isinstance(object(), BareTokenizer)
