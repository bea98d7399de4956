from mlxlm_models.tokenizer.wrapper import TokenizerWrapper


def test_reading_late_loses_nothing(smol: TokenizerWrapper) -> None:
    detokenizer = smol.detokenizer
    for token in smol.encode("one two three"):
        detokenizer.add_token(token)
    assert detokenizer.text == "one two three"
    assert detokenizer.last_segment == "one two three"
    assert detokenizer.last_segment == ""
    assert detokenizer.text == "one two three"


def test_reset_starts_another_text(smol: TokenizerWrapper, spm: TokenizerWrapper) -> None:
    for tokenizer in (smol, spm):
        detokenizer = tokenizer.detokenizer
        *most, _ = tokenizer.encode("half a 语", add_special_tokens=False)
        for token in most:
            detokenizer.add_token(token)
        detokenizer.reset()
        assert detokenizer.text == ""
        assert detokenizer.tokens == []
        for token in tokenizer.encode("hello", add_special_tokens=False):
            detokenizer.add_token(token)
        detokenizer.finalize()
        assert detokenizer.text == "hello"


def test_each_access_is_a_new_detokenizer(smol: TokenizerWrapper) -> None:
    first, second = smol.detokenizer, smol.detokenizer
    first.add_token(smol.encode("hello")[0])
    assert second.text == ""
