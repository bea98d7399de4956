"""The parser of `mlx_lm.chat`, and what it refuses."""

import pytest
from mlxlm_cli.chat import build_parser, main

# seed 2.3, with one threshold for all commands (R05)
SEED = {
    "--model": "mlx-community/Llama-3.2-3B-Instruct-4bit",
    "--trust-remote-code": False,
    "--adapter-path": None,
    "--temp": 0.0,
    "--top-p": 1.0,
    "--xtc-probability": 0.0,
    "--xtc-threshold": 0.1,
    "--seed": 0,
    "--max-kv-size": None,
    "--max-tokens": 256,
    "-m": 256,
    "--system-prompt": None,
    "--pipeline": False,
}


def test_R05_flags_and_defaults_are_those_of_mlx_lm_with_one_threshold() -> None:
    defaults = {
        flag: action.default for action in build_parser()._actions for flag in action.option_strings
    }
    assert {flag: defaults[flag] for flag in SEED} == SEED


@pytest.mark.parametrize(
    ("flag", "argv"),
    [
        ("--pipeline", ["--pipeline"]),
        ("--num-draft-tokens", ["--num-draft-tokens", "4"]),
        ("--kv-group-size", ["--kv-group-size", "32"]),
        ("--chat-template-config", ["--chat-template-config", "[]"]),
    ],
)
def test_wrong_usage_is_2_and_one_line(
    flag: str, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--model", "/nowhere", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert flag in err
