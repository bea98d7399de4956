"""The parser of `mlx_lm.server`, and what it refuses."""

import pytest
from mlxlm_cli.server import build_parser, main

# seed 2.6; the origins are the one default that differs
SEED = {
    "--model": None,
    "--adapter-path": None,
    "--host": "127.0.0.1",
    "--port": 8080,
    "--allowed-origins": None,
    "--draft-model": None,
    "--num-draft-tokens": 3,
    "--trust-remote-code": False,
    "--log-level": "INFO",
    "--chat-template": "",
    "--use-default-chat-template": False,
    "--temp": 0.0,
    "--top-p": 1.0,
    "--top-k": 0,
    "--min-p": 0.0,
    "--max-tokens": 512,
    "--chat-template-args": {},
    "--decode-concurrency": 32,
    "--prompt-concurrency": 8,
    "--prefill-step-size": 2048,
    "--prompt-cache-size": 10,
    "--prompt-cache-bytes": None,
    "--kv-bits": None,
    "--kv-group-size": 64,
    "--quantized-kv-start": 5000,
    "--pipeline": False,
}


def test_flags_and_defaults_are_those_of_mlx_lm_but_for_the_origins() -> None:
    defaults = {
        flag: action.default for action in build_parser()._actions for flag in action.option_strings
    }
    assert {flag: defaults[flag] for flag in SEED} == SEED


@pytest.mark.parametrize(
    ("said", "argv"),
    [
        ("--pipeline", ["--pipeline"]),
        ("--port", ["--port", "70000"]),
        ("--max-queue", ["--max-queue", "0"]),
        ("--memory-limit", ["--memory-limit", "much"]),
        ("--kv-group-size", ["--kv-group-size", "32"]),
        ("--num-draft-tokens", ["--num-draft-tokens", "4"]),
        ("--api-key", ["--api-key", "file:/nowhere"]),
        ("NO_SUCH_KEY", ["--api-key", "env:NO_SUCH_KEY"]),
        ("--adapter", ["--adapter", "path"]),
        ("--allowed-origins", ["--allowed-origins", "example.com"]),
        ("--chat-template", ["--chat-template", "@/nowhere"]),
        ("adapters", ["--adapter", "a=/b"]),
        ("a is there twice", ["--model", "a=x", "--model", "a=y"]),
        ("trust_remote_code needs models", ["--trust-remote-code"]),
    ],
)
def test_wrong_usage_is_2_and_one_line(
    said: str, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_a_key_on_the_command_line_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--api-key", "sk-secret"]) == 2
    err = capsys.readouterr().err
    assert "sk-secret" not in err
    assert "file:FILE or env:NAME" in err
