from typing import Any

import pytest
from mlxlm_cli.generate import build_parser
from mlxlm_cli.loading import load
from mlxlm_models import TokenizerError


class Tokenizer:
    chat_template: str | None = None

    def __init__(self, vocabulary: frozenset[str]) -> None:
        self.vocabulary = vocabulary
        self.ends: list[str] = []

    def get_vocab(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.vocabulary)}

    def add_eos_token(self, token: str) -> None:
        self.ends.append(token)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function: flags and a vocabulary in; what was loaded, and the tokenizer, out."""

    def run(*argv: str, vocabulary: frozenset[str] = frozenset(), **named: str) -> Any:
        calls: list[dict[str, Any]] = []
        tokenizer = Tokenizer(vocabulary)

        def fake(name: str, **options: Any) -> tuple[object, Tokenizer]:
            calls.append({"name": name} | options)
            return object(), tokenizer

        monkeypatch.setattr("mlxlm_models.loading.load", fake)
        load(build_parser().parse_args(argv), **named)
        return calls[0], tokenizer

    return run


def test_model_flags_reach_the_loader(asked: Any) -> None:
    flags = ("--adapter-path", "a", "--revision", "r", "--trust-remote-code")
    call, _ = asked("--model", "m", *flags, "--cpu-weights", "packed")
    assert call == {
        "name": "m",
        "adapter_path": "a",
        "revision": "r",
        "trust_remote_code": True,
        "cpu_weights": "packed",
    }


def test_a_prompt_cache_file_names_model_and_revision(asked: Any) -> None:
    call, _ = asked(model="from file", revision="abc")
    assert (call["name"], call["revision"]) == ("from file", "abc")
    call, _ = asked("--model", "m")
    assert (call["name"], call["revision"]) == ("m", None)


def test_R39_the_default_template_is_honoured_or_refused(asked: Any) -> None:
    chatml = frozenset({"<|im_start|>", "<|im_end|>"})
    _, tokenizer = asked("--use-default-chat-template", vocabulary=chatml)
    assert "<|im_start|>" in tokenizer.chat_template
    _, tokenizer = asked(vocabulary=chatml)
    assert tokenizer.chat_template is None
    with pytest.raises(TokenizerError, match="no default chat template"):
        asked("--use-default-chat-template")
