import sys
import time
from typing import Any

import pytest
from mlxlm_cli.generate import build_parser, thinking_state

# seed 2.2: mlx-lm's flags and defaults
SEED = {
    "--model": "mlx-community/Llama-3.2-3B-Instruct-4bit",
    "--trust-remote-code": False,
    "--adapter-path": None,
    "--extra-eos-token": (),
    "--system-prompt": None,
    "--prompt": "hello",
    "--prefill-response": None,
    "--max-tokens": 100,
    "--temp": 0.0,
    "--top-p": 1.0,
    "--min-p": 0.0,
    "--top-k": 0,
    "--xtc-probability": 0.0,
    "--xtc-threshold": 0.1,
    "--min-tokens-to-keep": 1,
    "--seed": None,
    "--ignore-chat-template": False,
    "--use-default-chat-template": False,
    "--chat-template-config": None,
    "--verbose": True,
    "--max-kv-size": None,
    "--prompt-cache-file": None,
    "--quantize-activations": False,
    "--kv-bits": None,
    "--kv-group-size": 64,
    "--quantized-kv-start": 5000,
    "--draft-model": None,
    "--num-draft-tokens": 3,
}


def test_flags_and_defaults_are_those_of_mlx_lm() -> None:
    defaults = {
        flag: action.default for action in build_parser()._actions for flag in action.option_strings
    }
    assert {flag: defaults[flag] for flag in SEED} == SEED
    assert defaults["-p"] == "hello"
    assert defaults["-m"] == 100
    assert defaults["-qa"] is False


def test_help_is_quick_and_imports_nothing_heavy(command: Any) -> None:
    probe = (
        "import sys\n"
        "from mlxlm_cli.generate import main\n"
        "status = main(['--help'])\n"
        "heavy = {'mlx', 'transformers', 'numpy', 'rich', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.exit(status)\n"
    )
    done = command("python", "-c", probe)
    assert (done.returncode, done.stderr) == (0, "")
    took = []
    for _ in range(3):  # the machine may be busy once
        started = time.perf_counter()
        command("mlx_lm.generate", "--help")
        took.append(time.perf_counter() - started)
    assert min(took) < 0.5


WRONG = [
    ("--temp", ["--temp", "-1"]),
    ("--top-p", ["--top-p", "2"]),
    ("--xtc-threshold", ["--xtc-threshold", "0.6"]),
    ("--top-k", ["--top-k", "-3"]),
    ("--chat-template-config", ["--chat-template-config", "{x"]),
    ("--chat-template-config", ["--chat-template-config", '{"tokenize": false}']),
    ("--chat-template-config", ["--chat-template-config", '{"a": "\udcff"}']),
    ("--system-prompt", ["--system-prompt", "\udcff"]),
    ("--prefill-response", ["--prefill-response", "\udcff"]),
    ("--prompt", ["--prompt", "\udcff"]),
    ("--seed", ["--seed", str(2**64)]),
    ("--verbose", ["--verbose"]),
    ("--kv-group-size", ["--kv-group-size", "32"]),
    ("--kv-bits", ["--kv-bits", "7"]),
    ("--max-kv-size", ["--max-kv-size", "4"]),
    ("--system-prompt", ["--ignore-chat-template", "--system-prompt", "x"]),
    ("--ngram-draft", ["--draft-model", "x", "--ngram-draft"]),
    ("--num-draft-tokens", ["--num-draft-tokens", "4"]),
    ("--num-draft-tokens", ["--ngram-draft", "--num-draft-tokens", "0"]),
    ("--quantize-activations", ["-qa"]),
    ("--prompt", ["--prompt", ""]),
    ("--prompt", ["--prompt", "-"]),
]


@pytest.mark.parametrize(("flag", "argv"), WRONG)
def test_wrong_usage_is_told_before_anything_is_loaded(
    flag: str, argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlxlm_cli import generate

    def load(*_: object) -> None:
        raise AssertionError("went on to load")

    monkeypatch.setattr(generate, "_generate", load)
    monkeypatch.setattr(sys.stdin, "read", lambda: "")
    assert generate.main(["--model", "/nowhere", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert flag in err


def test_a_model_that_is_not_there_is_1_and_one_line(command: Any) -> None:
    done = command("mlx_lm.generate", "--model", "/no/such/model")
    assert (done.returncode, done.stdout) == (1, "")
    assert "/no/such/model" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_R41_the_state_of_thinking_names_what_decides_it() -> None:
    class Tokenizer:
        class thinking:
            @staticmethod
            def state(asked: bool | None) -> str:
                return {None: "default", True: "on", False: "off"}[asked]

    def state(*argv: str) -> str:
        return thinking_state(build_parser().parse_args(argv), Tokenizer())

    assert state() == "default"
    assert state("--chat-template-config", '{"enable_thinking": false}') == "off"
    assert "--ignore-chat-template" in state("--ignore-chat-template")
