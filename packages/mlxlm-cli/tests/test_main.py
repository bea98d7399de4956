from typing import Any

import pytest
from mlxlm_cli.commands import COMMANDS, NOT_YET
from mlxlm_cli.main import main

# seed 2.1: the 17 subcommands of mlx-lm's dispatcher
MLX_LM = (
    *("benchmark", "cache_prompt", "chat", "convert", "evaluate", "fuse", "generate", "lora"),
    *("manage", "perplexity", "awq", "dwq", "dynamic_quant", "gptq", "server", "upload", "share"),
)


def test_every_command_of_mlx_lm_is_there_or_said_to_be_missing() -> None:
    assert set(MLX_LM) == (set(COMMANDS) | set(NOT_YET)) - {"doctor"}
    assert not set(COMMANDS) & set(NOT_YET)


@pytest.mark.parametrize("name", NOT_YET)
def test_a_command_that_is_not_there_yet_says_so(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--model", "x"], prog="mlx_lm") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"{name!r} isn't there yet" in err


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generat"], prog="mlx_lm") == 2
    assert "did you mean 'generate'?" in capsys.readouterr().err


def test_no_command_and_unknown_flags_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], prog="mlx_lm") == 2
    assert "which command?" in capsys.readouterr().err
    assert main(["--nonsense"], prog="mlx_lm") == 2
    assert "'--nonsense'" in capsys.readouterr().err


def test_help_lists_what_is_there_and_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"], prog="mlx_lm") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in MLX_LM)


def test_supported_spellings_reach_the_command_without_a_notice(command: Any) -> None:
    spellings = (
        ("mlx_lm.generate", "--help"),
        ("mlx_lm", "generate", "--help"),
        ("mlxlm", "generate", "--help"),
        ("python", "-m", "mlx_lm", "generate", "--help"),
    )
    for spelling in spellings:
        done = command(*spelling)
        assert (done.returncode, done.stderr) == (0, ""), spelling
        assert "--prefill-response" in done.stdout


@pytest.mark.parametrize("name", ["generate", "chat", "server"])
def test_R52_the_old_spelling_works_with_one_notice_on_stderr(command: Any, name: str) -> None:
    done = command("python", "-m", f"mlx_lm.{name}", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: mlx_lm.{name}")
    assert done.stderr.count("\n") == 1
    assert f"`mlx_lm.{name}`" in done.stderr
