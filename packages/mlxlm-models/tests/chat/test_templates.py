from typing import Any

import pytest
from mlxlm_models.chat.templates import (
    chat_template_source,
    default_chat_template,
    use_default_chat_template,
)
from mlxlm_models.errors import TokenizerError
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper

USER = [{"role": "user", "content": "hi"}]


def render(tokenizer: TokenizerWrapper, template: Any, **kwargs: Any) -> str:
    tokenizer.chat_template = template
    return str(tokenizer.apply_chat_template(USER, tokenize=False, **kwargs))


def test_R39_the_default_template_is_chatml(tokenizer: TokenizerWrapper) -> None:
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>"])
    use_default_chat_template(tokenizer)
    assert tokenizer.chat_template == default_chat_template()
    text = tokenizer.apply_chat_template(
        [{"role": "system", "content": "S"}, *USER], tokenize=False, add_generation_prompt=True
    )
    assert text == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.get_vocab()["<|im_end|>"] in tokenizer.eos_token_ids


def test_R39_an_own_template_is_the_default(tokenizer: TokenizerWrapper) -> None:
    tokenizer.chat_template = "own"
    use_default_chat_template(tokenizer)
    assert tokenizer.chat_template == "own"


def test_R39_no_default_is_an_error(tokenizer: TokenizerWrapper) -> None:
    tokenizer.add_tokens(["<|im_start|>"])
    with pytest.raises(TokenizerError, match=r"no default chat template.*<\|im_end\|>"):
        use_default_chat_template(tokenizer)
    assert tokenizer.chat_template is None


def test_R40_no_template_is_an_error(tokenizer: TokenizerWrapper) -> None:
    with pytest.raises(TokenizerError, match="the tokenizer has no chat template: ") as caught:
        tokenizer.apply_chat_template(USER)
    assert "system prompt" not in str(caught.value)
    with pytest.raises(TokenizerError, match="no chat template, so the system prompt"):
        tokenizer.apply_chat_template([{"role": "system", "content": "S"}, *USER])


def test_a_broken_template_is_an_error_with_its_line(tokenizer: TokenizerWrapper) -> None:
    with pytest.raises(TokenizerError, match="syntax error in line 2"):
        render(tokenizer, "ok\n{% if %}")


def test_a_refusal_of_the_template_is_passed_on(tokenizer: TokenizerWrapper) -> None:
    with pytest.raises(TokenizerError, match="roles must alternate"):
        render(tokenizer, "{{ raise_exception('roles must alternate') }}")
    with pytest.raises(TokenizerError, match="cannot render"):
        render(tokenizer, "{{ messages[0]['content'] + 1 }}")


def test_named_templates(tokenizer: TokenizerWrapper) -> None:
    named = {"default": "d", "tool_use": "t {{ tools }}", "rag": "r"}
    assert render(tokenizer, named) == "d"
    assert render(tokenizer, named, chat_template="rag") == "r"
    assert render(tokenizer, named, chat_template="inline") == "inline"
    assert render(tokenizer, named, tools=[{"type": "function"}]).startswith("t ")
    with pytest.raises(TokenizerError, match="choose one of rag"):
        render(tokenizer, {"rag": "r"})


def test_what_the_template_does_not_read_is_reported(
    tokenizer: TokenizerWrapper, caplog: pytest.LogCaptureFixture
) -> None:
    assert render(tokenizer, "{{ date }}", date="today", add_generation_prompt=True) == "today"
    assert not caplog.records
    for _ in range(2):
        render(tokenizer, "x", colour="red", tools=[{"type": "function"}])
    assert [r.getMessage() for r in caplog.records] == [
        "The chat template does not read colour, tools: no effect."
    ]


def test_options_of_transformers_pass_through(tokenizer: TokenizerWrapper) -> None:
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    assert tokenizer.apply_chat_template(USER) == tokenizer.encode("hi")
    assert list(tokenizer.apply_chat_template(USER, return_dict=True)["input_ids"]) == (
        tokenizer.encode("hi")
    )


def test_source_of_a_named_template(tokenizer: TokenizerWrapper) -> None:
    assert chat_template_source(tokenizer) is None
    assert chat_template_source(tokenizer, "given") == "given"
    tokenizer.chat_template = {"default": "d", "tool_use": "t"}
    assert chat_template_source(tokenizer) == "d"
    assert chat_template_source(tokenizer, for_tools=True) == "t"
    assert chat_template_source(tokenizer, "tool_use") == "t"
