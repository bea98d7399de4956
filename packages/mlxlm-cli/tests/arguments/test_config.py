from argparse import Namespace
from pathlib import Path

import pytest
from mlxlm_cli.arguments.config import add_config_flag, apply_config
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.values import integer, json_object
from mlxlm_cli.errors import CommandError, UsageError


def read(file: Path, text: str, *argv: str) -> Namespace:
    file.write_text(text)
    parser = Parser("tool", "A tool.")
    parser.add_argument("--max-queue", type=integer(1), default=256)
    parser.add_argument("--model", action="append")
    parser.add_argument("--names")
    parser.add_argument("--arguments", type=json_object, default={})
    parser.add_argument("--strict", action="store_true")
    add_config_flag(parser)
    args = parser.parse_args(["--config", str(file), *argv])
    apply_config(parser, args)
    return args


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.toml"


def test_a_file_says_what_flags_say(file: Path) -> None:
    text = """
max-queue = 64
model = ["a", "-b"]
names = ["x", "y"]
strict = true
[arguments]
enable_thinking = false
"""
    args = read(file, text)
    assert (args.max_queue, args.model, args.names, args.strict) == (64, ["a", "-b"], "x,y", True)
    assert args.arguments == {"enable_thinking": False}
    assert args.given == {"config", "max_queue", "model", "names", "strict", "arguments"}


def test_a_table_names_what_is_given_more_than_once(file: Path) -> None:
    assert read(file, 'model = {small = "/m/s"}').model == ["small=/m/s"]
    assert read(file, 'model = "one"').model == ["one"]


def test_the_command_line_overrides_the_file(file: Path) -> None:
    args = read(file, 'max_queue = 64\nmodel = ["a"]', "--max-queue", "8", "--model", "b")
    assert (args.max_queue, args.model) == (8, ["b"])
    assert read(file, "strict = false", "--strict").strict is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-que = 1", "no setting 'max-que'; the nearest is 'max-queue'"),
        ("zzz = 1", "no setting 'zzz'; the nearest is"),
        ("config = 'x'", "no setting 'config'"),
        ("help = true", "no setting 'help'"),
        ("strict = 1", "strict wants true or false, not 1"),
        ("max-queue = true", "max-queue wants a text or a number"),
        ("max-queue =", "isn't TOML"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(file: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"{file}.*{said}"):
        read(file, text)


def test_a_bad_value_is_told_as_on_the_command_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        read(file, "max-queue = 0")
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"tool: error: {file}: argument --max-queue: has to be at least 1")


def test_a_file_that_is_not_there_is_a_failure(file: Path) -> None:
    parser = Parser("tool", "A tool.")
    with pytest.raises(CommandError, match="can't be read"):
        apply_config(parser, Namespace(config=file))
