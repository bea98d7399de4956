import pytest
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.speculation import add_speculation_flags, check_speculation_flags
from mlxlm_cli.errors import UsageError


def checked(*argv: str) -> None:
    parser = Parser("p", "d")
    add_speculation_flags(parser)
    check_speculation_flags(parser.parse_args(argv))


@pytest.mark.parametrize(
    "argv",
    [(), ("--draft-model", "x", "--num-draft-tokens", "4"), ("--ngram-draft", "--num-draft", "2")],
)
def test_flags_that_go_together(argv: tuple[str, ...]) -> None:
    checked(*argv)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--draft-model", "x", "--ngram-draft"), "give one of them"),
        (("--num-draft-tokens", "4"), "no effect without --draft-model or --ngram-draft"),
    ],
)
def test_R03_what_would_have_no_effect_is_refused(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked(*argv)
