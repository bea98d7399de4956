import copy
import logging
import pickle
from typing import Any

import pytest
from mlxlm_models.chat.tool_calls.formats import TOOL_PARSERS
from mlxlm_models.errors import TokenizerError
from mlxlm_models.tokenizer.gguf import tokenizer_from_gguf
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper


@pytest.fixture
def own(smol: TokenizerWrapper) -> TokenizerWrapper:
    """A copy to change."""
    return copy.deepcopy(smol)


def test_encode_and_decode(smol: TokenizerWrapper, spm: TokenizerWrapper) -> None:
    ids = smol.encode("Hello world! 123")
    assert smol.decode(ids) == "Hello world! 123"
    assert spm.encode("the", add_special_tokens=True)[0] == 1
    assert spm.encode("the", add_special_tokens=False)[0] != 1
    assert smol.decode([1, *ids], skip_special_tokens=True) == "Hello world! 123"


def test_vocabulary(smol: TokenizerWrapper, spm: TokenizerWrapper) -> None:
    assert smol.vocab_size == len(smol) == len(smol.get_vocab()) == 49152
    assert len(spm) == 402


def test_unknown_attributes_are_the_tokenizers(own: TokenizerWrapper) -> None:
    assert own.bos_token == "<|im_start|>"
    assert own(["a"])["input_ids"] == [own.encode("a")]
    own.chat_template = "{{ messages[0]['content'] }}"
    assert own._tokenizer.chat_template == "{{ messages[0]['content'] }}"
    assert own.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False) == "x"
    with pytest.raises(AttributeError):
        _ = own.no_such_thing


def test_copies_and_pickles(smol: TokenizerWrapper) -> None:
    for other in (copy.deepcopy(smol), pickle.loads(pickle.dumps(smol))):
        assert other.encode("Hello <|im_end|>") == smol.encode("Hello <|im_end|>")
        assert other.eos_token_ids == smol.eos_token_ids


def test_eos_ids(own: TokenizerWrapper) -> None:
    assert own.eos_token_ids == {2}
    own.add_eos_token("<|endoftext|>")
    own.add_eos_token(7)
    assert own.eos_token_ids == {0, 2, 7}
    own.eos_token_ids = 3
    assert own.eos_token_ids == {3}
    with pytest.raises(TokenizerError, match="<none>"):
        own.add_eos_token("<none>")
    assert TokenizerWrapper(own._tokenizer, eos_token_ids=[4]).eos_token_ids == {2, 4}


def test_chat_template_gives_ids_or_text(smol: TokenizerWrapper) -> None:
    messages = [{"role": "system", "content": "SYS"}, {"role": "user", "content": "USR"}]
    text = smol.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nSYS<|im_end|>\n<|im_start|>user\nUSR<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    ids = smol.apply_chat_template(messages, add_generation_prompt=True)
    assert ids == smol.encode(text, add_special_tokens=False)
    assert ids.count(1) == 3


def test_R40_no_template_is_said(smol_metadata: dict[str, Any]) -> None:
    bare = {k: v for k, v in smol_metadata.items() if k != "tokenizer.chat_template"}
    tokenizer = tokenizer_from_gguf(bare)
    assert not tokenizer.has_chat_template
    assert tokenizer.thinking is None
    assert tokenizer.tool_parser is None
    messages = [{"role": "system", "content": "SYS"}, {"role": "user", "content": "USR"}]
    with pytest.raises(TokenizerError, match=r"no chat template.*system prompt"):
        tokenizer.apply_chat_template(messages)


def thinking_of(own: TokenizerWrapper) -> tuple[bool, str | None, str | None, str]:
    return own.has_thinking, own.think_start, own.think_end, own.thinking_state()


def test_R41_thinking_follows_the_template(own: TokenizerWrapper) -> None:
    own.add_tokens(["<think>", "</think>"])
    assert thinking_of(own) == (False, None, None, "none")
    own.chat_template = "{{ messages[0].content }}{% if enable_thinking %}go{% endif %}"
    assert thinking_of(own) == (
        True,
        "<think>",
        "</think>",
        "the template's default (switch: enable_thinking)",
    )


def test_R41_thinking_is_switched_by_the_caller_only(own: TokenizerWrapper) -> None:
    own.chat_template = (
        "{% if enable_thinking is not defined %}unset"
        "{% elif enable_thinking %}<think>{% else %}off{% endif %}"
    )
    messages = [{"role": "user", "content": "x"}]
    assert own.apply_chat_template(messages, tokenize=False) == "unset"
    assert own.apply_chat_template(messages, tokenize=False, enable_thinking=True) == "<think>"
    assert own.apply_chat_template(messages, tokenize=False, enable_thinking=False) == "off"


def test_R42_an_explicit_tool_parser_wins(
    smol: TokenizerWrapper, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = TokenizerWrapper(copy.deepcopy(smol._tokenizer), tool_parser_type="glm47")
    tokenizer.chat_template = "<start_function_call>"
    with caplog.at_level(logging.WARNING):
        assert tokenizer.tool_parser is TOOL_PARSERS["glm47"]
    assert tokenizer.has_tool_calling
    assert (tokenizer.tool_call_start, tokenizer.tool_call_end) == ("<tool_call>", "</tool_call>")
    assert not caplog.records


def test_tool_parser_follows_a_named_template(own: TokenizerWrapper) -> None:
    assert not own.has_tool_calling
    assert own.tool_call_start is None
    assert own.tool_call_end is None
    own.chat_template = {"default": "plain", "tool_use": "[TOOL_CALLS]"}
    assert own.tool_parser is TOOL_PARSERS["mistral"]
