from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from mlxlm_cli.errors import CommandError
from mlxlm_cli.generate import build_parser
from mlxlm_cli.render import render


class Characters:
    """One token a character; `<` and `>` frame a turn, `|` ends it, `^` begins a text."""

    eos_token_ids = frozenset({ord("|")})

    def __init__(self, template: str | None = "<{role}>{content}|") -> None:
        self.template = template
        self.has_chat_template = template is not None
        self.calls = count()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(c) for c in ("^" if add_special_tokens else "") + text]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))

    def apply_chat_template(
        self,
        messages: list[dict[str, str]],
        *,
        tokenize: bool,
        continue_final_message: bool,
        add_generation_prompt: bool,
        **config: str,
    ) -> str:
        assert not tokenize
        assert self.template is not None
        text = "^" + config.get("tag", "")
        for message in messages:
            text += self.template.format(call=next(self.calls), **message)
        if continue_final_message:
            return text.removesuffix("|")
        return text + ("<assistant>" if add_generation_prompt else "")


def rendered(tokenizer: Characters, *argv: str, file: Any = None) -> str:
    args = build_parser().parse_args(argv)
    return tokenizer.decode(render(args, tokenizer, args.prompt, file))


def cached(text: str | None) -> SimpleNamespace:
    return SimpleNamespace(tokens=None if text is None else [ord(c) for c in text])


def test_the_template_frames_the_prompt_with_one_beginning_of_text() -> None:
    text = rendered(Characters(), "-p", "Hi", "--system-prompt", "Be terse.")
    assert text == "^<system>Be terse.|<user>Hi|<assistant>"


def test_a_prefilled_answer_is_left_open() -> None:
    text = rendered(Characters(), "-p", "Hi", "--prefill-response", "Well,")
    assert text == "^<user>Hi|<assistant>Well,"


def test_the_template_gets_its_settings() -> None:
    config = '{"tag": "quick"}'
    assert "^quick<" in rendered(Characters(), "-p", "Hi", "--chat-template-config", config)


@pytest.mark.parametrize("argv", [["--ignore-chat-template"], []])
def test_without_a_template_the_prompt_is_taken_as_it_is(argv: list[str]) -> None:
    tokenizer = Characters() if argv else Characters(template=None)
    assert rendered(tokenizer, "-p", "Hi", *argv) == "^Hi"
    assert rendered(tokenizer, "-p", "Hi", *argv, file=cached("^Book. ")) == "Hi"


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--system-prompt", "x"), ("--prefill-response", "x"), ("--chat-template-config", "{}")],
)
def test_R40_a_flag_that_needs_a_template_is_an_error_without_one(flag: str, value: str) -> None:
    with pytest.raises(CommandError, match=f"{flag} needs a chat template"):
        rendered(Characters(template=None), flag, value)


@pytest.mark.parametrize("tokens", ["^<user>Book.", None])
def test_R21_a_prompt_continues_the_cached_turn(tokens: str | None) -> None:
    text = rendered(Characters(), "-p", r"\nSum up.", file=cached(tokens))
    assert text == r"\nSum up.|<assistant>"


def test_R21_a_cache_that_begins_differently_is_an_error() -> None:
    with pytest.raises(CommandError, match="doesn't begin as the chat template does"):
        rendered(Characters(), "-p", "Sum up.", file=cached("^<system>Be terse.|<user>Book."))
    system = ("--system-prompt", "Be terse.")
    file = cached("^<system>Be terse.|<user>Book.")
    assert rendered(Characters(), "-p", "Sum up.", *system, file=file) == "Sum up.|<assistant>"


def test_R21_a_template_that_changes_from_call_to_call_is_an_error() -> None:
    with pytest.raises(CommandError, match="different text each time"):
        rendered(Characters("<{role} {call}>{content}|"), "-p", "Hi", file=cached("^<user 0>B"))


def test_R21_a_turn_that_has_ended_cannot_be_continued() -> None:
    with pytest.raises(CommandError, match="has ended"):
        rendered(Characters(), "-p", "Hi", file=cached("^<user>Book.|<assistant>Good."))


def test_R21_a_system_prompt_that_cannot_be_checked_is_an_error() -> None:
    with pytest.raises(CommandError, match="--system-prompt"):
        rendered(Characters(), "-p", "Hi", "--system-prompt", "x", file=cached(None))


def test_R21_a_template_that_repeats_the_text_is_an_error() -> None:
    with pytest.raises(CommandError, match="2 times"):
        rendered(Characters("<{role}>{content}{content}|"), "-p", "Hi", file=cached("^<user>B"))
