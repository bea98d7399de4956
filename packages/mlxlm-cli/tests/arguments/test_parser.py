import pytest
from mlxlm_cli.arguments.parser import Parser, flag_of


@pytest.fixture
def parser() -> Parser:
    parser = Parser("tool", "A tool.")
    parser.add_argument("--top-p", type=float, default=1.0, help="share")
    parser.add_argument("--fast", action="store_true", help="hurry")
    parser.add_argument("--more", nargs="+", default=())
    return parser


def test_given_names_what_was_on_the_command_line(parser: Parser) -> None:
    args = parser.parse_args(["--top-p", "1.0", "--fast", "--more", "a", "b"])
    assert args.given == {"top_p", "fast", "more"}
    assert parser.parse_args([]).given == frozenset()


def test_an_error_is_one_line_that_names_the_flag(
    parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(["--top-p", "much"])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "--top-p" in lines[0]
    assert "tool --help" in lines[0]


def test_help_shows_defaults_that_say_something(parser: Parser) -> None:
    text = parser.format_help()
    assert "share (default: 1.0)" in text
    assert "hurry\n" in text


def test_log_level_in_any_case(parser: Parser) -> None:
    assert parser.parse_args(["--log-level", "debug"]).log_level == "DEBUG"


def test_flag_of_is_the_long_spelling() -> None:
    assert flag_of("max_kv_size") == "--max-kv-size"
