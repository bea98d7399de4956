import io
import os
import readline
from pathlib import Path

import pytest
from mlxlm_cli.chat.terminal import Lines, history, history_file
from mlxlm_cli.errors import CommandError


def test_a_pipe_gives_its_lines_without_prompts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\r\n\nthree"))
    lines = Lines()
    assert not lines.interactive
    assert [lines.read() for _ in range(4)] == ["one", "", "three", None]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_piped_line_that_is_not_utf_8_is_told(
    errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"a\xff\n"), encoding="utf-8", errors=errors)
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(CommandError, match=r"standard input isn't UTF-8 \(byte 1\)"):
        Lines().read()


def test_history_lives_in_the_state_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "mlxlm" / "chat_history"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the XDG specification says to ignore it
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_file() == tmp_path / ".local" / "state" / "mlxlm" / "chat_history"


def test_history_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "mlxlm" / "chat_history"
    readline.clear_history()
    with history(file):
        readline.add_history("a question")
    assert "a question" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    readline.clear_history()
    with history(file):
        assert readline.get_history_item(1) == "a question"


def test_a_state_directory_that_cannot_be_written_costs_only_the_history(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with history(blocked / "mlxlm" / "chat_history"):
        pass
    assert blocked.read_text() == ""


def test_a_link_to_what_is_no_file_keeps_no_history(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    mode = pipe.stat().st_mode
    file = tmp_path / "chat_history"
    file.symlink_to(pipe)
    with history(file):
        readline.add_history("a question")
    assert pipe.is_fifo()
    assert pipe.stat().st_mode == mode
    assert file.is_symlink()


def test_a_link_to_a_file_stays_one(tmp_path: Path) -> None:
    target = tmp_path / "synced"
    file = tmp_path / "chat_history"
    file.symlink_to(target)
    with history(file):
        readline.add_history("a question")
    assert file.is_symlink()
    assert "a question" in target.read_text()
