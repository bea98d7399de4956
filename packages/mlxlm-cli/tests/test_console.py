import pytest
from mlxlm_cli import console
from mlxlm_cli.console import prefill_progress, say


def test_say_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("loaded")
    assert capsys.readouterr() == ("", "loaded\n")


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with prefill_progress(step=10) as progress:
        progress(10, 100)
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal_for_a_long_prompt_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "on_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with prefill_progress(step=10) as progress:
        progress(5, 9)
    assert capsys.readouterr().err == ""
    with prefill_progress(step=10) as progress:
        progress(10, 100)
        progress(100, 100)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Reading the prompt" in err
