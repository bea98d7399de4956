import logging
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable

import pytest
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.values import boolean
from mlxlm_cli.errors import CommandError, UsageError
from mlxlm_cli.run import run


@pytest.fixture(autouse=True)
def _keep_logging() -> object:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    logging.captureWarnings(False)


def raising(error: BaseException) -> Callable[[Namespace], None]:
    def execute(args: Namespace) -> None:
        raise error

    return execute


def outcome(
    error: BaseException, capsys: pytest.CaptureFixture[str], *argv: str
) -> tuple[int, str]:
    status = run(Parser("tool", "A tool."), raising(error), argv)
    return status, capsys.readouterr().err


def test_done_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Parser("tool", "A tool."), lambda args: print("text"), []) == 0
    assert capsys.readouterr().out == "text\n"


def test_wrong_usage_is_2_with_the_way_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = outcome(UsageError("--a and --b don't go together"), capsys)
    assert status == 2
    assert err == "tool: error: --a and --b don't go together (see tool --help)\n"


@pytest.mark.parametrize("error", [CommandError("no\nmodel"), ValueError("no model")])
def test_a_failure_is_1_and_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(error, capsys) == (1, "tool: error: no model\n")


@pytest.mark.parametrize("error", [KeyError("x"), ValueError()])
def test_an_error_that_says_little_comes_with_its_type(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = outcome(error, capsys)
    assert (status, err.count("\n")) == (1, 1)
    assert type(error).__name__ in err
    assert "--log-level DEBUG" in err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = outcome(ValueError("no model"), capsys, "--log-level", "DEBUG")
    assert status == 1
    assert "Traceback" in err
    assert err.splitlines()[-1] == "tool: error: no model"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "loaded\n"),
        (["--verbose", "false"], ""),
        (["--verbose", "false", "--log-level", "INFO"], "loaded\n"),
    ],
)
def test_verbose_false_leaves_out_notices(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = Parser("tool", "A tool.")
    parser.add_argument("--verbose", type=boolean, default=True)
    status = run(parser, lambda args: logging.getLogger("mlxlm_models").info("loaded"), argv)
    assert (status, capsys.readouterr().err) == (0, said)


def test_ctrl_c_is_130_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(KeyboardInterrupt(), capsys) == (130, "")


_ENDLESS = """
import sys
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.run import run

def execute(args):
    while True:
        print("text", flush=True)

sys.exit(run(Parser("tool", "A tool."), execute, []))
"""


def test_a_closed_pipe_is_141_and_says_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"text\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_sigint_from_outside_is_130_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"text\n"  # it is in `execute` now
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")
