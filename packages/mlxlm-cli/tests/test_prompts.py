import io
from argparse import Namespace

import pytest
from mlxlm_cli.errors import CommandError, UsageError
from mlxlm_cli.generate import build_parser
from mlxlm_cli.prompts import check_template_flags, messages, read_prompt


def test_escapes_are_expanded_before_the_dash_is_looked_at() -> None:
    assert read_prompt(r"\nSum\tup.") == "\nSum\tup."
    assert read_prompt("-", io.StringIO(r"a\nb")) == r"a\nb"  # stdin is taken as it is
    assert read_prompt(r"\n-", io.StringIO("unread")) == "\n-"


@pytest.mark.parametrize(("text", "piped"), [("", "unread"), ("-", "")])
def test_an_empty_prompt_is_wrong_usage(text: str, piped: str) -> None:
    with pytest.raises(UsageError, match="prompt is empty"):
        read_prompt(text, io.StringIO(piped))


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    for errors in ("strict", "surrogateescape"):  # the latter in a C locale
        stdin = io.TextIOWrapper(io.BytesIO(b"a\xff"), encoding="utf-8", errors=errors)
        with pytest.raises(CommandError, match=r"standard input isn't UTF-8 \(byte 1\)"):
            read_prompt("-", stdin)
    stdin = io.TextIOWrapper(io.BytesIO("é".encode()), encoding="ascii", errors="surrogateescape")
    assert read_prompt("-", stdin) == "é"


def test_a_closed_stdin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(CommandError, match="standard input is closed"):
        read_prompt("-")


def test_messages_put_the_system_first_and_the_begun_answer_last() -> None:
    assert [m["role"] for m in messages("q", "s", "a")] == ["system", "user", "assistant"]
    assert messages("q", None) == [{"role": "user", "content": "q"}]
    assert messages("q", "")[0] == {"role": "system", "content": ""}


def flags(*argv: str) -> Namespace:
    return build_parser().parse_args(argv)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--system-prompt", ["Be terse."]),
        ("--prefill-response", ["Well,"]),
        ("--chat-template-config", ["{}"]),
        ("--use-default-chat-template", []),
    ],
)
def test_a_flag_for_the_template_is_not_dropped_with_the_template(
    flag: str, value: list[str]
) -> None:
    with pytest.raises(UsageError, match=flag):
        check_template_flags(flags("--ignore-chat-template", flag, *value))
    check_template_flags(flags(flag, *value))
